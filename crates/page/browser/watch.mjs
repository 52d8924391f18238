// Watches the page of `cellgate stream recv --to http:` with a browser, while a film of 25 frames a
// second comes. What is to become of the sender is asked for on standard output; an answer is a line
// on standard input.
//
// Environment: PAGE (its address), CHROMIUM, SHOTS (where screenshots go).

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const { PAGE, CHROMIUM, SHOTS } = process.env;
const said = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const ask = async what => {
  console.log(`> ${what}`);
  const { done } = await said.next();
  assert(!done, `nobody did: ${what}`);
};

const browser = await chromium.launch({
  executablePath: CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"],
});
const complaints = [];
async function open(options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.on("console", message => { if (message.type() === "error") complaints.push(message.text()); });
  page.on("pageerror", error => complaints.push(String(error)));
  page.on("request", request => {
    const url = request.url();
    if (!url.startsWith(PAGE) && !/^(data|blob):/.test(url)) complaints.push(`asked elsewhere: ${url}`);
  });
  const answer = await page.goto(PAGE);
  assert.match(answer.headers()["content-security-policy"], /default-src 'none'.*media-src blob:/);
  return page;
}
const look = page => page.evaluate(() => {
  const video = document.getElementById("video");
  const { totalVideoFrames, droppedVideoFrames } = video.getVideoPlaybackQuality();
  const { buffered, currentTime, paused, error } = video;
  const [from, end] = buffered.length ? [buffered.start(0), buffered.end(buffered.length - 1)] : [0, 0];
  return {
    at: performance.now() / 1e3, currentTime, frames: totalVideoFrames, dropped: droppedVideoFrames, behind: end - currentTime,
    kept: currentTime - from,
    paused, error: error && error.message, state: document.getElementById("state").textContent, width: video.videoWidth,
    sound: video.webkitAudioDecodedByteCount,
  };
});
// The newest picture is shown: a player that was given more has jumped there, and goes on in time.
async function plays(page, timeout) {
  const until = Date.now() + timeout;
  await page.waitForFunction(() => document.getElementById("state").className === "on"
    && document.getElementById("video").currentTime > 0, null, { timeout });
  for (let before = await look(page); ;) {
    await page.waitForTimeout(500);
    const now = await look(page);
    const is = Math.abs(now.currentTime - before.currentTime - (now.at - before.at)) < 0.25 && now.behind < 1.5;
    if (is) return;
    assert(Date.now() < until, `it does not play in ${timeout} ms: ${JSON.stringify(now)}`);
    before = now;
  }
}

if (!await (async () => {
  const page = await browser.newPage();
  const is = await page.evaluate(() => MediaSource.isTypeSupported('video/mp4; codecs="avc1.42E01E,mp4a.40.2"'));
  await page.close();
  return is;
})()) {
  console.log("skipped video_http: this Chromium plays no H.264 with AAC");
  process.exit(0);
}

// How long the threads of the browser ran, and waited for a CPU, by the kernel's accounts; in ns.
function cpu() {
  const parents = new Map();
  for (const pid of readdirSync("/proc").filter(name => /^\d+$/.test(name))) {
    try { parents.set(pid, readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").pop().split(" ")[1]); } catch { /* it has ended */ }
  }
  const isOurs = pid => { for (; pid; pid = parents.get(pid)) if (pid === String(process.pid)) return true; return false; };
  const sum = { ran: 0, waited: 0 };
  for (const pid of [...parents.keys()].filter(isOurs)) {
    try {
      for (const thread of readdirSync(`/proc/${pid}/task`)) {
        const [ran, waited] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "latin1").split(" ").map(Number);
        sum.ran += ran;
        sum.waited += waited;
      }
    } catch { /* it has ended */ }
  }
  return sum;
}

// A browser whose threads have waited twice as long as they ran says nothing of what it is given.
const accounts = cpu();
process.on("uncaughtException", error => {
  const { ran, waited } = cpu();
  const told = `ran ${((ran - accounts.ran) / 1e9).toFixed(1)} s, waited ${((waited - accounts.waited) / 1e9).toFixed(1)} s for a CPU`;
  const isDisturbed = waited - accounts.waited > 2 * (ran - accounts.ran);
  console.error(`${isDisturbed ? "disturbed: the browser " : "the browser "}${told}\n${error.stack}`);
  process.exit(1);
});

// It plays, in time: the picture advances as the clock does, and does not fall behind.
async function keepsTime(page, seconds, what) {
  const before = await look(page);
  let worst = 0;
  for (let i = 0; i < seconds; i++) {
    await page.waitForTimeout(1000);
    worst = Math.max(worst, (await look(page)).behind);
  }
  const after = await look(page);
  const took = after.at - before.at, moved = after.currentTime - before.currentTime;
  const frames = after.frames - before.frames, dropped = after.dropped - before.dropped;
  const told = `${what}: ${moved.toFixed(2)} s of ${took.toFixed(2)}, ${frames} frames, ${dropped} dropped, `
    + `at most ${worst.toFixed(2)} s behind`;
  console.log(told);
  assert(Math.abs(moved - took) < 0.2 * took + 1, told);
  assert(frames > 0.8 * 25 * took, told);
  assert(dropped <= 0.1 * frames, told);
  assert(worst < 2.5, told);
  assert(after.sound > before.sound, `${told}; no sound`);
}
const first = await open({ viewport: { width: 640, height: 800 } });
await plays(first, 15000);
assert.equal((await look(first)).width, 640);
await keepsTime(first, 5, "the first viewer");

// One that never reads, beside it; one that comes late begins at once, though a picture that needs no
// other comes once in ten seconds.
const begun = Date.now();
const unread = connect(+new URL(PAGE).port, new URL(PAGE).hostname);
unread.on("error", () => {});
unread.write(`GET /stream.ts HTTP/1.1\r\nHost: ${new URL(PAGE).host}\r\n\r\n`);
unread.pause();
const late = await open({ viewport: { width: 320, height: 700 }, colorScheme: "dark" });
await plays(late, 5000);
await first.waitForFunction(() => document.getElementById("viewers").textContent === "3");
await Promise.all([keepsTime(first, 6, "beside one that never reads"), keepsTime(late, 6, "the late viewer")]);
assert.equal(await late.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0, "320 px are enough");
await late.screenshot({ path: `${SHOTS}/video-320-dark.png`, fullPage: true });
await first.screenshot({ path: `${SHOTS}/video.png`, fullPage: true });
for (const name of ["packets", "frames"]) assert(+await first.locator(`#${name}`).textContent() > 100, name);
assert.equal(await first.locator("#lost").textContent(), "0");

// It is given up, which costs nobody a frame.
const watched = (count, timeout) => first.waitForFunction(
  count => document.getElementById("viewers").textContent === count, String(count), { timeout });
const before = await Promise.all([first, late].map(look));
await watched(2, 40000);
const after = await Promise.all([first, late].map(look));
after.forEach((now, i) => {
  const told = `${JSON.stringify(before[i])} and ${JSON.stringify(now)}`;
  assert(now.dropped - before[i].dropped <= 0.1 * (now.frames - before[i].frames) + 5, told);
});
console.log(`given up after ${((Date.now() - begun) / 1e3).toFixed(1)} s`);

// What was shown is not kept for long.
{
  const { currentTime, kept } = after[0];
  assert(currentTime > 15 && kept < 15, `${kept} s kept of ${currentTime}`);
}

// By keyboard: it is paused, and goes on with the newest picture.
await first.locator("#video").focus();
await first.keyboard.press("Space");
await first.waitForFunction(() => document.getElementById("state").textContent === "paused");
await watched(1, 5000);
await first.keyboard.press("Space");
await plays(first, 5000);
await keepsTime(first, 3, "after a pause");

// One that leaves ends nothing but itself; the film that begins anew is played on.
await late.context().close();
await watched(1, 5000);
await ask("film begins anew");
await first.waitForTimeout(2000);
await plays(first, 10000);
await keepsTime(first, 4, "after a new beginning");

assert.deepEqual(complaints, []);
const { ran, waited } = cpu();
console.log(`the browser ran ${((ran - accounts.ran) / 1e9).toFixed(1)} s, waited ${((waited - accounts.waited) / 1e9).toFixed(1)} s for a CPU`);
await browser.close();
console.log("ran video_http");
process.exit(0);
