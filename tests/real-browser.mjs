// Pages of runs in the real Chromium: nothing is loaded, nothing runs, bars are where the journal says, folding works, foreign text is text.
import { createRequire } from "node:module";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import assert from "node:assert/strict";

const [modules, pages, shots] = process.argv.slice(2);
const { chromium } = createRequire(join(modules, "x.js"))("playwright-core");

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

async function opened(name, { width = 1024, colorScheme = "light" } = {}) {
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
  const trouble = [];
  page.on("console", (message) => trouble.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => trouble.push(`error: ${error}`));
  page.on("dialog", (dialog) => { trouble.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  const requests = [];
  page.on("request", (request) => requests.push(request.url()));
  const url = `file://${join(pages, name)}`;
  await page.goto(url);
  return { page, done: async () => {
    assert.deepEqual(trouble, [], `${name}: the browser complains`);
    assert.deepEqual(requests.filter((it) => it !== url && !it.startsWith("data:")), [], `${name}: a request leaves the page`);
    await page.close();
  } };
}

async function check(what, body) {
  await body();
  console.log(`ok  ${what}`);
}

await check("bars are where the journal's times are", async () => {
  const { page, done } = await opened("failed.html");
  const journal = readFileSync(join(pages, "failed.jsonl"), "utf8").trim().split("\n").map((line) => JSON.parse(line));
  const at = (event) => Date.parse(event.at);
  const begun = at(journal[0]);
  const whole = at(journal.findLast((event) => event.event === "loop-ended")) - begun;
  const expected = journal.filter((event) => event.event === "attempt-started").map((start) => {
    const end = journal.find((event) => event.seq > start.seq && ["checkpoint-landed", "attempt-rolled-back"].includes(event.event) && event.story === start.story && event.attempt === start.attempt);
    return [(at(start) - begun) / whole, (at(end) - at(start)) / whole];
  });
  const bars = await page.$$eval(".g", (groups) => groups.map((group) => {
    const [bar, track] = [group.getBoundingClientRect(), group.parentElement.getBoundingClientRect()];
    return [(bar.left - track.left) / track.width, bar.width / track.width, track.width];
  }));
  assert.equal(bars.length, expected.length);
  bars.forEach(([left, width, pixels], number) => {
    const [expectedLeft, expectedWidth] = expected[number];
    // Allows for half a pixel of rounding on each side, and for the minimum width of a bar.
    const most = 4 / pixels + 0.002;
    assert.ok(Math.abs(left - expectedLeft) < most, `bar ${number} begins at ${left}, not at ${expectedLeft}`);
    assert.ok(Math.abs(width - expectedWidth) < most, `bar ${number} is ${width} wide, not ${expectedWidth}`);
  });
  await done();
});

await check("a bar tells about its attempt when it is pointed at, and when it has the focus", async () => {
  const { page, done } = await opened("failed.html", { width: 360 });
  const tip = page.locator(".g .tip").first();
  assert.equal(await tip.isVisible(), false);
  await page.locator(".g").first().hover();
  assert.equal(await tip.isVisible(), true);
  await page.mouse.move(5, 5);
  assert.equal(await tip.isVisible(), false);
  await page.locator(".g").first().focus();
  assert.match(await tip.innerText(), /attempt 1/);
  const box = await tip.boundingBox();
  assert.ok(box.x >= 0 && box.x + box.width <= 360, "it fits on a phone");
  await done();
});

await check("stories and diffs fold, and those in trouble are open", async () => {
  const { page, done } = await opened("failed.html");
  const stories = page.locator("details.story");
  const open = await stories.evaluateAll((all) => all.map((story) => [story.querySelector(".chip").textContent, story.open]));
  assert.ok(open.some(([state]) => state === "failed") && open.every(([state, isOpen]) => isOpen === (state === "failed")), JSON.stringify(open));
  const folded = page.locator("details.story:not([open])").first();
  const article = folded.locator("article").first();
  assert.equal(await article.isVisible(), false);
  await folded.locator("> summary").click();
  await page.locator("details.story").first().locator("article").first().waitFor({ state: "visible" });
  const diff = page.locator("details.story[open] article pre.diff").first();
  assert.equal(await diff.isVisible(), false);
  await diff.locator("xpath=ancestor::details[1]/summary").click();
  await diff.waitFor({ state: "visible" });
  await done();
});

await check("a hostile run is text", async () => {
  for (const name of ["hostile.html", "hostile-transcripts.html"]) {
    const { page, done } = await opened(name);
    assert.equal(await page.evaluate(() => document.querySelectorAll("script, img, iframe, object, embed, form, base").length), 0);
    assert.equal(await page.evaluate(() => document.body.innerHTML.includes("onerror=") && document.querySelector("[onerror]")), null);
    assert.match(await page.evaluate(() => document.body.textContent), /<script>alert/);
    await done();
  }
});

await check("pages fit at 360, 1024 and 1600 pixels in both colour schemes", async () => {
  mkdirSync(shots, { recursive: true });
  for (const name of ["demo", "failed", "parallel", "hostile", "empty"]) {
    for (const width of [360, 1024, 1600]) {
      for (const colorScheme of ["light", "dark"]) {
        const { page, done } = await opened(`${name}.html`, { width, colorScheme });
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        assert.equal(overflow, 0, `${name} is wider than ${width} pixels`);
        const [ink, paper] = await page.evaluate(() => { const style = getComputedStyle(document.body); return [style.color, style.backgroundColor]; });
        const light = (colour) => colour.match(/\d+/g).map(Number).reduce((sum, part) => sum + part);
        assert.equal(light(paper) > light(ink), colorScheme === "light", `${name} in ${colorScheme}`);
        await page.screenshot({ path: join(shots, `${name}-${width}-${colorScheme}.png`), fullPage: true });
        await done();
      }
    }
  }
});

await check("a printed page has what is folded on the screen", async () => {
  const { page, done } = await opened("failed.html");
  await page.emulateMedia({ media: "print" });
  assert.ok((await page.pdf({ format: "A4" })).length > 10000);
  assert.equal(await page.locator("nav").isVisible(), false);
  await done();
});

await browser.close();
