// Looks at the page of `cellgate demo --terminal --page` with a browser.
//
// Environment: PAGE (its address), CHROMIUM, SHOTS (where screenshots go).

import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const { PAGE, CHROMIUM, SHOTS } = process.env;
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
const page = await browser.newPage({ viewport: { width: 390, height: 900 } });
const complaints = [];
page.on("pageerror", error => complaints.push(String(error)));
await page.goto(PAGE);

// Both ends of both connections are there, and said to be what they are.
const roles = { "a.0.60": "the camera", "b.0.60": "the display", "a.0.100": "puts the file", "b.0.100": "receives the file" };
for (const [address, role] of Object.entries(roles))
  await page.locator("#cards article h3", { hasText: `${address}${role}` }).waitFor({ timeout: 20000 });

// How far they are, in words, by the names of each.
const told = async (name, pattern) => {
  const value = page.locator("#both dt", { hasText: name }).locator("xpath=following-sibling::dd[1]");
  await page.waitForFunction(([text, source]) => new RegExp(source).test(document.getElementById(text).textContent),
    [await value.getAttribute("id"), pattern.source], { timeout: 20000 });
};
await told("The file", /^\d+ % of 16,777,216, [\d.]+ x 10\^6 octets a second, [\d,]+ octets sent again$/);
await told("The video", /^frames \d+ on time, \d+ late, \d+ missing; \d+ packets, \d+ lost.* held, clock [-+]\d+\.\d+ ppm/);
// There is nothing to steer.
assert.equal(await page.locator("#demo").isVisible(), false);
assert.equal(await page.locator("#try").isVisible(), true);
const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
assert(wide <= 0, `${wide} px too wide`);
await page.screenshot({ path: `${SHOTS}/terminal.png`, fullPage: true });
assert.deepEqual(complaints, []);
await browser.close();
process.exit(0);
