// What the tests of the pages share: the built pages on a server, and Chromium to open them.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { serve } from '../../site/server.mjs'

export const root = fileURLToPath(new URL('../..', import.meta.url))
export const fromSite = createRequire(path.join(root, 'site/package.json'))
export const out = process.env.WEB_OUT ?? path.join(root, 'build/web')
const { chromium } = fromSite('playwright-core')
const shots = process.env.WEB_SHOTS  // a folder for pictures of the pages

export let address
let browser, server
before(async () => {
  const folders = process.env.PATH.split(':')
  const executablePath = folders.flatMap((folder) => ['chromium', 'google-chrome'].map((name) => path.join(folder, name))).find((file) => fs.existsSync(file))
  assert.ok(executablePath, 'no Chromium here: apt-get install chromium')
  server = await serve(out)
  address = `http://127.0.0.1:${server.address().port}/`
  browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--use-angle=swiftshader', '--enable-unsafe-swiftshader', '--ignore-gpu-blocklist'] })
})
after(async () => {
  await browser.close()
  server.closeAllConnections()
  server.close()
})

/** A tab with nothing in it yet. What the console says of errors fails the test that closes it. */
export async function tab(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: 'reduce', ...options })
  const page = await context.newPage()
  const errors = []
  page.on('console', (message) => message.type() === 'error' && errors.push(message.text()))
  page.on('pageerror', (error) => errors.push(error.message))
  return { page, errors, close: async () => (assert.deepEqual(errors, []), await context.close()) }
}

export const ready = (page) => page.waitForFunction(() => document.body.dataset.ready, null, { timeout: 60_000 })
export const state = (page) => page.evaluate(() => visualizer.state())
export const until = (page, name) => page.waitForFunction((wanted) => visualizer.controls()[wanted], name)

export async function open(page, hash = '') {
  await page.goto(`${address}index.html${hash}`)
  await ready(page)
}

/** A test on the page that this link opens. */
export const testOn = (hash, name, body, options) => test(name, async () => {
  const { page, close } = await tab(options)
  await open(page, hash)
  await body(page)
  await close()
})

/** Where a control stands on the page. */
export async function placeOf(page, name) {
  await until(page, name)
  const { x, y, disabled } = await page.evaluate((wanted) => visualizer.controls()[wanted], name)
  const { top, scale } = await page.evaluate(() => ({ top: document.getElementById('canvas').offsetTop, scale: devicePixelRatio }))
  return { x: x / scale, y: top + y / scale, disabled }
}

/** Clicks a control by its name, as a hand would: by where it stands. */
export async function click(page, name) {
  const { x, y, disabled } = await placeOf(page, name)
  assert.equal(disabled, '', name)
  await page.mouse.click(x, y, { delay: 60 })
}

export async function shoot(page, name) {
  if (shots) await page.screenshot({ path: path.join(shots, `${name}.png`) })
}

/** Loads a scenario by its link, walks to its end, and says what did not hold. */
export async function walk(page, { name, page: lesson, text }) {
  await page.evaluate((link) => { location.hash = link }, `s=${await page.evaluate((words) => visualizer.encode(words), text)}`)
  await page.waitForFunction((wanted) => visualizer.state().page === wanted && visualizer.state().scenario === 'shared' && visualizer.state().step === 0, lesson)
  await page.focus('#canvas')
  await page.keyboard.press('End', { delay: 60 })
  await page.waitForFunction(() => visualizer.state().ended || visualizer.state().errors.length, null, { timeout: 120_000 })
  const { errors, ended, step, steps } = await state(page)
  assert.deepEqual(errors, [], `${lesson}/${name}`)
  assert.ok(ended && step === steps && steps > 0, `${lesson}/${name}: step ${step} of ${steps}`)
}

