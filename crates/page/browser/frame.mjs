// Draws what a browser shows of the demo's page as SVG: text, boxes and drawings where they stand.
// The slider floods for a while first.
//
//   cellgate demo --page        # prints URL
//   CHROMIUM=/usr/bin/chromium node crates/page/browser/frame.mjs URL docs/demo.svg
//
// Environment: CHROMIUM, SECONDS (of flood, 30).

import { writeFile } from "node:fs/promises";
import { chromium } from "playwright-core";

const [url, file] = process.argv.slice(2);
const { CHROMIUM, SECONDS = "30" } = process.env;
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
const page = await browser.newPage({ viewport: { width: 960, height: 1200 }, colorScheme: "light" });
await page.goto(url);
await page.waitForFunction(() => document.getElementById("state").className === "on");
const pause = seconds => page.waitForTimeout(1000 * seconds);
await pause(SECONDS / 2);
await page.locator("#flood").press("End");
await pause(SECONDS);

const svg = await page.evaluate(() => {
  const told = text => text.replace(/[&<>"]/g, c => `&#${c.charCodeAt(0)};`);
  const round = x => +x.toFixed(1);
  const hex = (_, parts) => `#${parts.split(",").map(n => (+n).toString(16).padStart(2, "0")).join("")}`;
  const isSeen = color => color && color !== "none" && !/, 0\)$/.test(color);
  const out = [];

  // A box, as far as it has a colour of its own.
  const box = (element, style) => {
    const { x, y, width, height } = element.getBoundingClientRect();
    const edge = parseFloat(style.borderTopWidth) > 0 && isSeen(style.borderTopColor) && style.borderTopColor;
    if (!width || !height || (!isSeen(style.backgroundColor) && !edge)) return;
    const fill = isSeen(style.backgroundColor) ? style.backgroundColor : "none";
    out.push(`<rect x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}"`
      + ` rx="${parseFloat(style.borderTopLeftRadius) || 0}" fill="${fill}"${edge ? ` stroke="${edge}"` : ""}/>`);
  };
  // A slider, whose track and knob no style sheet draws.
  const slider = (element, style) => {
    const { x, y, width, height } = element.getBoundingClientRect();
    const at = x + 8 + (width - 16) * (element.value - element.min) / (element.max - element.min);
    out.push(`<rect x="${round(x)}" y="${round(y + height / 2 - 3)}" width="${round(width)}" height="6" rx="3"`
      + ` fill="${style.color}" fill-opacity="0.3"/>`);
    out.push(`<circle cx="${round(at)}" cy="${round(y + height / 2)}" r="8" fill="${style.accentColor === "auto" ? style.color : style.accentColor}"/>`);
  };
  // A text node, line by line.
  const text = (node, style) => {
    const range = document.createRange();
    const lines = new Map();
    for (let at = 0; at < node.length; at++) {
      range.setStart(node, at);
      range.setEnd(node, at + 1);
      const { x, bottom, width, height } = range.getBoundingClientRect();
      if (!width || (!node.data[at].trim() && !lines.has(round(bottom)))) continue;
      const line = lines.get(round(bottom)) ?? { x, baseline: bottom - height * 0.22, said: "" };
      line.said += node.data[at];
      if (node.data[at].trim()) line.length = x + width - line.x;
      lines.set(round(bottom), line);
    }
    for (const { x, baseline, said, length } of lines.values())
      out.push(`<text x="${round(x)}" y="${round(baseline)}" textLength="${round(length)}" font-size="${style.fontSize}" font-weight="${style.fontWeight}"`
        + ` font-family="${told(style.fontFamily)}" fill="${style.color}">${told(said.trimEnd())}</text>`);
  };
  const TEXT = { "font-size": "", "font-family": "", "text-anchor": "start" };
  const PROPERTIES = { ...TEXT, fill: "", "fill-opacity": "1", opacity: "1", stroke: "none", "stroke-width": "1px",
    "stroke-dasharray": "none" };
  // A drawing, with the colours that style sheets give it.
  const drawing = element => {
    const { x, y, width, height } = element.getBoundingClientRect();
    const copy = element.cloneNode(true);
    const pairs = [...element.querySelectorAll("*")].map((one, i) => [one, copy.querySelectorAll("*")[i]]);
    for (const [one, its] of pairs) {
      const style = getComputedStyle(one);
      for (const [name, without] of Object.entries(PROPERTIES)) {
        const value = style.getPropertyValue(name);
        const concerns = one.localName === "text" || !(name in TEXT);
        if (concerns && value !== without) its.setAttribute(name, value);
      }
      its.removeAttribute("class");
    }
    copy.setAttribute("x", round(x));
    copy.setAttribute("y", round(y));
    copy.setAttribute("width", round(width));
    copy.setAttribute("height", round(height));
    copy.removeAttribute("class");
    out.push(new XMLSerializer().serializeToString(copy).replace(/ xmlns="[^"]*"/g, "").replace(/rgb\(([\d, ]+)\)/g, hex));
  };
  const walk = node => {
    if (node.nodeType === Node.TEXT_NODE) {
      if (node.data.trim()) text(node, getComputedStyle(node.parentElement));
      return;
    }
    if (node.nodeType !== Node.ELEMENT_NODE || !node.checkVisibility()) return;
    if (node instanceof SVGSVGElement) return drawing(node);
    if (node.type === "range") return slider(node, getComputedStyle(node));
    box(node, getComputedStyle(node));
    node.childNodes.forEach(walk);
  };
  // The demo and the connections' cards; the topology between them is left out.
  document.getElementById("topologybox").hidden = true;
  const [demo, cards] = ["demo", "cards"].map(id => document.getElementById(id));
  const { x, y, width } = demo.getBoundingClientRect();
  const height = cards.getBoundingClientRect().bottom - y;
  out.push(`<rect x="${x}" y="${y}" width="${width}" height="${height}" fill="${getComputedStyle(document.body).backgroundColor}"/>`);
  walk(demo);
  walk(cards.parentElement.querySelector("h2"));
  walk(cards);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${round(x)} ${round(y)} ${round(width)} ${round(height)}"`
    + ` role="img" aria-label="The demo's page during a flood">\n${out.join("\n")}\n</svg>\n`;
});
await writeFile(file, svg);
await browser.close();
