// Looks at the page of a daemon with a browser. What is to become of the daemon and of the page's
// process is asked for on standard output; an answer is a line on standard input.
//
// Environment: CELLGATE (the command), CELLGATE_SOCKET, PAGE (its address), CHROMIUM, SHOTS (where
// screenshots go).

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

const { CELLGATE, PAGE, CHROMIUM, SHOTS } = process.env;
const WITHIN = 1000;
const said = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const ask = async what => {
  console.log(`> ${what}`);
  const { done } = await said.next();
  assert(!done, `nobody did: ${what}`);
};
const cellgate = async (...words) => (await promisify(execFile)(CELLGATE, words)).stdout;
const stats = async () => JSON.parse(await cellgate("stats", "--json"));
const total = counts => Object.values(counts).reduce((all, n) => all + n, 0);
const ran = name => console.log(`ran ${name}`);

const browser = await chromium.launch({
  executablePath: CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"],
});
const complaints = [];
const expected = { refused: false };

async function open(options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.on("console", message => {
    // While the page's process is away, the browser says so.
    if (message.type() === "error" && !expected.refused) complaints.push(message.text());
  });
  page.on("pageerror", error => complaints.push(String(error)));
  page.on("request", request => {
    const url = request.url();
    if (!url.startsWith(PAGE) && !url.startsWith("data:")) complaints.push(`asked elsewhere: ${url}`);
  });
  return page;
}
const live = page => page.waitForFunction(() => document.getElementById("state").className === "on");

// It loads, and its first state is there without a script.
{
  const page = await open({ javaScriptEnabled: false });
  const answer = await page.goto(PAGE);
  assert.match(answer.headers()["content-security-policy"], /default-src 'none'/);
  assert.deepEqual(await page.locator("#rows th").allTextContents(), ["a.0.40", "b.0.40", "a.0.41", "b.0.41", "a.0.42", "b.0.42"]);
  await page.context().close();
  ran("page_without_script");
}

const page = await open({ viewport: { width: 1280, height: 900 } });
await page.goto(PAGE);
await live(page);
await page.locator("#tablebox summary").click();

const row = address => page.locator("#rows tr", { has: page.getByRole("rowheader", { name: address, exact: true }) });
const shown = async address => {
  const cells = await row(address).locator("td.n").all();
  return Promise.all(cells.map(async cell => +(await cell.getAttribute("data-n"))));
};

const card = address => page.locator("#cards article", { has: page.locator("h3 span", { hasText: address }) });
const told = async (address, part) => (await card(address).locator(`p.${part}`).getAttribute("data-n") || "").split(",");
const bySlots = ({ transmit, receive }) => [transmit, receive].flatMap(s => [s.reserved, s.clp0, s.clp1, s.unoccupied]);

// Slots and ABR are those of --json; reserved slots pass whether or not somebody sends.
async function sameSlots(wrong) {
  const before = (await stats()).connections;
  await page.waitForTimeout(1000);
  const seen = new Map();
  for (const { address } of before) seen.set(address, (await told(address, "slots")).map(Number));
  const after = new Map((await stats()).connections.map(info => [info.address, info]));
  for (const { address, slots } of before) {
    const [least, is, most] = [bySlots(slots), seen.get(address), bySlots(after.get(address).slots)];
    const fits = is.length === 8 && is.every((n, i) => least[i] <= n && n <= most[i]);
    if (!fits) wrong.push([`slots of ${address}`, is, least, most]);
    const { abr } = after.get(address).stats;
    if (abr) {
      const is = String(await told(address, "abr"));
      if (is !== `${abr.allowed_cell_s},${abr.floor_cell_s},${abr.reason}`) wrong.push([`ABR of ${address}`, is, abr]);
    }
  }
}

// Every number is that of --json, once nothing is sent any more.
async function sameNumbers() {
  let wrong;
  for (let i = 0; i < 20; i++) {
    const { connections, resources, interfaces } = await stats();
    wrong = [];
    const same = (what, is, should) => { if (JSON.stringify(is) !== JSON.stringify(should)) wrong.push([what, is, should]); };
    for (const info of connections) {
      const { pdus_transmitted, pdus_delivered, pdus_discarded } = info.stats;
      same(info.address, await shown(info.address), [pdus_transmitted, pdus_delivered, total(pdus_discarded)]);
    }
    same("rows", await page.locator("#rows tr").count(), connections.length);
    const losses = {};
    for (const { stats } of connections)
      for (const [reason, n] of Object.entries(stats.cells_discarded)) losses[reason] = (losses[reason] || 0) + n;
    for (const { counts } of interfaces)
      for (const reason of ["unknown_vc", "hec_error", "idle"])
        if (counts.cells[reason]) losses[reason] = (losses[reason] || 0) + counts.cells[reason];
    for (const [reason, n] of Object.entries(losses))
      same(reason, await page.locator(`#losses tr[data-reason=${reason}] td[data-n]`).getAttribute("data-n"), String(n));
    same("books", await page.locator("#books > div").evaluateAll(all => all.map(one => +one.dataset.reserved)),
      resources.map(one => one.reserved));
    await sameSlots(wrong);
    if (!wrong.length) return;
    await page.waitForTimeout(250);
  }
  assert.deepEqual(wrong, []);
}

// A VC that is added, flooded and deleted shows within a second.
await cellgate("vc", "add", "a.0.50", "contract", "cbr,aal5:pcr=40Mbps,max_sdu=1500,rx:none");
await cellgate("vc", "add", "b.0.50", "contract", "cbr,aal5:pcr=10Mbps,max_sdu=1500,tx:none");
await row("b.0.50").waitFor({ timeout: WITHIN });
await page.locator("article", { hasText: "b.0.50" }).waitFor({ timeout: WITHIN });
const reader = spawn(CELLGATE, ["recv", "--vc", "b.0.50", "--take"], { stdio: ["ignore", "ignore", "ignore"] });
const writer = spawn("sh", ["-c", `exec ${CELLGATE} send --vc a.0.50 --take --block 1500 < /dev/zero`], { stdio: "ignore" });
await page.waitForFunction(async () => (await fetch("/api/state").then(answer => answer.json()))
  .connections.some(info => info.address === "b.0.50" && Object.values(info.stats.pdus_discarded).some(n => n > 0)));
await page.locator("#losses tr").first().waitFor({ timeout: WITHIN });
await page.waitForTimeout(3000);
assert.match(await page.locator("article", { hasText: "b.0.50" }).textContent(), /delivered 9|delivered 1\d\.\d/);
assert.equal(await page.locator("#cards article").first().locator("h3 span").first().textContent(), "b.0.50", "the worst is first");
await page.screenshot({ path: `${SHOTS}/flooded.png`, fullPage: true });
writer.kill();
reader.kill();

// ABR follows a bottleneck: its rate moves, and the page says to where, above what, and why.
const taker = spawn(CELLGATE, ["recv", "--vc", "a.0.42", "--take"], { stdio: ["ignore", "ignore", "ignore"] });
const giver = spawn("sh", ["-c", `exec ${CELLGATE} send --vc b.0.42 --take --block 1496 < /dev/zero`], { stdio: "ignore" });
const rates = new Set(), reasons = new Set();
for (let i = 0; i < 40 && !(rates.size > 3 && reasons.has("congestion")); i++) {
  const [allowed, floor, reason] = await told("b.0.42", "abr");
  assert.equal(floor, "1000");
  rates.add(allowed);
  reasons.add(reason);
  await page.waitForTimeout(250);
}
assert(rates.size > 3 && reasons.has("congestion"), `${[...rates]}; ${[...reasons]}`);
const line = await card("b.0.42").locator("svg[aria-label='sent, of what ABR allows'] path.acr").getAttribute("d");
assert(new Set(line.slice(1).split("L").map(point => point.split(" ")[1])).size > 2, `the line does not move: ${line}`);
assert.match(await card("b.0.42").locator("p.abr").textContent(),
  /^allowed \(ACR\) [\d.]+ Mbit\/s [\d,]+ cells\/s, floor \(MCR\) 0\.38 Mbit\/s 1,000 cells\/s: (the network|it was)/);
assert.match(await card("b.0.40").locator("p.slots").textContent(),
  /^slots to receive: [\d,]+ reserved, 0 occupied \(CLP 0 0, CLP 1 0\), [\d,]+ unoccupied$/);
assert.equal(await card("b.0.40").locator("p.abr").isVisible(), false);
await page.screenshot({ path: `${SHOTS}/abr.png`, fullPage: true });
giver.kill();
taker.kill();
await page.waitForTimeout(1000);
await sameNumbers();
ran("page_abr");
ran("page_numbers");
await cellgate("vc", "del", "a.0.50");
await cellgate("vc", "del", "b.0.50");
await row("b.0.50").waitFor({ state: "detached", timeout: WITHIN });
await page.locator("article", { hasText: "b.0.50" }).waitFor({ state: "detached", timeout: WITHIN });
ran("page_within_a_second");

// All by keyboard: every control is reached, and the form answers.
{
  await page.locator("#tablebox summary").click();
  await page.evaluate(() => { document.activeElement.blur(); scrollTo(0, 0); });
  const reached = new Set();
  for (let i = 0; i < 40; i++) {
    await page.keyboard.press("Tab");
    const name = await page.evaluate(() => {
      const at = document.activeElement;
      const outline = getComputedStyle(at).outlineStyle;
      return at === document.body ? "" : `${at.id || at.tagName.toLowerCase()}${outline === "none" ? " without a mark" : ""}`;
    });
    if (name) reached.add(name);
  }
  for (const name of ["summary", "tryitf", "trycontract", "button", "a"])
    assert(reached.has(name), `${name} of ${[...reached]}`);
  await page.locator("#trycontract").focus();
  await page.keyboard.press("Enter");
  await page.locator("#tried", { hasText: "Yes." }).waitFor({ timeout: 5000 });
  await page.locator("#trycontract").fill("cbr,aal5:pcr=400Mbps,max_sdu=1500");
  await page.keyboard.press("Enter");
  await page.locator("#tried", { hasText: "No." }).waitFor({ timeout: 5000 });
  await page.getByRole("button", { name: "Try the offer" }).focus();
  await page.keyboard.press("Enter");
  await page.locator("#tried", { hasText: "Yes." }).waitFor({ timeout: 5000 });
  ran("page_keyboard");
}

// Every width and both schemes: nothing scrolls sideways, and all text can be read.
const contrasts = () => {
  const channels = color => color.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const poor = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.getClientRects().length || ["SCRIPT", "STYLE", "OPTION"].includes(node.tagName)) continue;
    const style = getComputedStyle(node), inSvg = node.namespaceURI.endsWith("svg");
    let at = node, back = [0, 0, 0, 0];
    while (at && (back.length === 4 && back[3] === 0)) { back = channels(getComputedStyle(at).backgroundColor); at = at.parentElement; }
    const [one, other] = [light(channels(inSvg ? style.fill : style.color)), light(back)];
    const ratio = (Math.max(one, other) + .05) / (Math.min(one, other) + .05);
    if (ratio < 4.5) poor.push(`${node.tagName} ${node.textContent.slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return poor;
};
for (const colorScheme of ["light", "dark"]) {
  for (const width of [320, 390, 768, 1440]) {
    const one = await open({ viewport: { width, height: 900 }, colorScheme, reducedMotion: width === 768 ? "reduce" : "no-preference" });
    await one.goto(PAGE);
    await live(one);
    await one.locator("#cards article").first().waitFor();
    await one.locator("#tablebox summary").click();
    await one.waitForTimeout(600);
    const wide = await one.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert(wide <= 0, `${width} px, ${colorScheme}: ${wide} px too wide`);
    assert.deepEqual(await one.evaluate(contrasts), [], `${width} px, ${colorScheme}`);
    await one.screenshot({ path: `${SHOTS}/${width}-${colorScheme}.png`, fullPage: true });
    await one.context().close();
  }
}
ran("page_widths");

// It goes on after the daemon's death, and after that of the page's process.
await ask("daemon dies");
await page.waitForFunction(() => document.getElementById("state").className === "off", null, { timeout: 5000 });
await ask("daemon is followed");
await live(page);
await page.locator("#tablebox summary").click();
await sameNumbers();
expected.refused = true;
await ask("page dies");
await page.waitForFunction(() => document.getElementById("state").className === "off", null, { timeout: 5000 });
await ask("page is followed");
await live(page);
await page.waitForTimeout(500);
await sameNumbers();
ran("page_reconnects");

assert.deepEqual(complaints, []);
await browser.close();
process.exit(0);
