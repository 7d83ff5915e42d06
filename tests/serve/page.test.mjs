// The server's page in Chromium: an answer in the colours of its blocks, the cache beside it, equal answers in company,
// and the visualizer attached to the server.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { root, Server } from './server.mjs'

const site = path.join(root, 'site/node_modules')
const chromium = ['chromium', 'google-chrome'].flatMap((name) => process.env.PATH.split(':').map((folder) => path.join(folder, name))).find((file) => fs.existsSync(file))
const missing = !fs.existsSync(path.join(site, 'playwright-core')) ? 'no playwright-core here: ./course site --test installs it' : !chromium && 'no Chromium here: apt-get install chromium'
const options = { skip: missing || false }
const age = (...names) => fs.statSync(path.join(root, ...names), { throwIfNoEntry: false })?.mtimeMs ?? 0
const stale = age('build/web/visualizer.pack') < age('instruments/watch/sockets/web_listener.cpp')
const attached = { skip: missing || (stale && 'no visualizer in build/web that is as new as its sources: ./course web makes it') }

let browser, server
before(async () => {
  if (missing) return
  browser = await createRequire(path.join(root, 'site/package.json'))('playwright-core').chromium.launch({ executablePath: chromium, args: ['--no-sandbox', '--use-angle=swiftshader', '--enable-unsafe-swiftshader', '--ignore-gpu-blocklist'] })
  server = await Server.start('--enable-prompt-tokens-details', '--num-blocks', 256)
})
after(async () => {
  await browser?.close()
  if (server) assert.equal(await server.stop(), 0, server.output)
})

async function open(context = {}, address = server.url) {
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: 'reduce', ...context })).newPage()
  const errors = []
  page.on('console', (message) => message.type() === 'error' && !/\/pages\//.test(message.location().url) && errors.push(message.text()))
  page.on('pageerror', (error) => errors.push(error.message))
  await page.goto(address)
  return { page, close: async () => (assert.deepEqual(errors, []), page.context().close()) }
}
const says = (page, words) => page.waitForFunction((source) => new RegExp(source).test(document.querySelector('#status').textContent), words.source, { timeout: 20_000 })
const number = async (page, id) => Number((await page.textContent(`#${id}`)).replace(/\D.*/, ''))

test('a prompt that is sent twice: its first block is found, and the same answer comes among 16 others', options, async () => {
  const { page, close } = await open()
  await page.click('#send')
  await says(page, /^\d+ tokens/)
  const text = await page.textContent('#answer'), prompt = await page.inputValue('#prompt')
  assert.ok(text.startsWith(prompt) && text.length > prompt.length + 20)
  assert.equal(await number(page, 'found'), 0)
  await page.focus('#seed')
  await page.keyboard.press('Enter')
  await page.waitForFunction(() => document.querySelectorAll('#answer .token.found').length === 16)
  await says(page, /^\d+ tokens/)
  assert.equal(await page.textContent('#answer'), text)
  assert.equal(await number(page, 'found') + await number(page, 'computed'), await page.locator('#answer .token:not(.made)').count())
  await page.click('#again')
  await says(page, /^Equal: the same 40 tokens/)
  await page.waitForFunction(() => Number(document.querySelector('#kept').textContent) > 8)
  assert.ok(await page.locator('#events li').count() > 0)
  await close()
})

test('stop gives the blocks back', options, async () => {
  const { page, close } = await open()
  await page.route('**/v1/completions', (route) => route.continue({ postData: JSON.stringify({ ...route.request().postDataJSON(), ignore_eos: true, max_tokens: 1900 }) }))
  await page.evaluate(() => new Promise((ok) => {
    document.querySelector('#send').click()
    new MutationObserver((_, observer) => {
      if (document.querySelectorAll('#answer .token.made').length < 5) return
      observer.disconnect()
      document.querySelector('#stop').click()
      ok()
    }).observe(document.querySelector('#answer'), { childList: true })
  }))
  await says(page, /^Stopped/)
  await server.idle()
  await close()
})

test('it fits a phone, in the dark, too, and what is read aloud has names', options, async () => {
  for (const colorScheme of ['light', 'dark']) {
    const { page, close } = await open({ viewport: { width: 390, height: 800 }, colorScheme })
    await page.click('#send')
    await says(page, /^\d+ tokens/)
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= 390)
    await page.addScriptTag({ path: path.join(site, 'axe-core/axe.min.js') })
    const { violations } = await page.evaluate(() => axe.run(document, { runOnly: ['wcag2a', 'wcag2aa'] }))
    assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html)}`), [])
    await close()
  }
})

test('the visualizer below follows this server', attached, async () => {
  const { page, close } = await open()
  const frame = await (await page.waitForSelector('iframe')).contentFrame()
  await frame.waitForFunction(() => document.body.dataset.ready, null, { timeout: 60_000 })
  await page.fill('#prompt', 'Far away in the hills there stood a tower, and in the tower lived a very old and very clever owl.')
  await page.click('#send')
  await says(page, /^\d+ tokens/)
  await frame.waitForFunction(() => JSON.parse(program.ccall('web_state', 'string', [], [])).counters.standing > 0, null, { timeout: 30_000 })
  await close()
})

test('a server with a key asks for it', options, async () => {
  const locked = await Server.start('--api-key', 'secret')
  const page = await browser.newPage()
  await page.goto(locked.url)
  await says(page, /wants a key/)
  await page.fill('#key', 'secret')
  await page.press('#key', 'Tab')
  await page.waitForFunction(() => /tiny/.test(document.querySelector('#model').textContent))
  await page.click('#send')
  await says(page, /^\d+ tokens/)
  await page.close()
  assert.equal(await locked.stop(), 0)
})
