// What the tests share: the built site, and a browser.
import fs from 'node:fs'
import path from 'node:path'
import { chromium } from 'playwright-core'
import { serve } from '../server.mjs'

export { chapters } from '../.vitepress/chapters.mjs'

export const out = process.env.SITE_OUT
export const base = process.env.SITE_BASE ?? '/'
export const hasVisualizer = fs.existsSync(path.join(out, 'viz/index.html'))

/** Every page of the site, as the path of its file in it. The visualizer is no page of ours. */
export function pages(folder = '') {
  return fs.readdirSync(path.join(out, folder), { withFileTypes: true }).flatMap((entry) => {
    const file = path.posix.join(folder, entry.name)
    if (entry.isDirectory()) return file === 'viz' ? [] : pages(file)
    return file.endsWith('.html') ? [file] : []
  })
}

function browserPath() {
  const folders = process.env.PATH.split(':')
  const names = ['chromium', 'chromium-browser', 'google-chrome']
  const found = names.flatMap((name) => folders.map((folder) => path.join(folder, name))).find((file) => fs.existsSync(file))
  if (!found) throw new Error('no Chromium here: apt-get install chromium')
  return found
}

// The visualizer draws with WebGL, and no GPU has to be there.
const drawing = ['--use-angle=swiftshader', '--enable-unsafe-swiftshader', '--ignore-gpu-blocklist']

/** A browser and a server for as long as the tests of a file run: {open, close}. */
export async function reader() {
  const server = await serve(out, { base })
  const address = `http://127.0.0.1:${server.address().port}`
  const browser = await chromium.launch({ executablePath: browserPath(), args: ['--no-sandbox', ...drawing] })
  return {
    address,
    /** A page in a fresh profile. `errors` collects what the console has to say. */
    async open(link, options = {}) {
      const context = await browser.newContext({ baseURL: address, viewport: { width: 1280, height: 800 }, ...options })
      const page = await context.newPage()
      page.setDefaultTimeout(90_000) // a busy machine is late
      const errors = []
      page.on('console', (message) => message.type() === 'error' && errors.push(message.text()))
      page.on('pageerror', (error) => errors.push(error.message))
      await page.goto(base + link.slice(1), { waitUntil: 'load' })
      await page.waitForFunction(() => document.querySelector('#app')?.__vue_app__)
      return { page, errors }
    },
    async close() {
      await browser.close()
      server.closeAllConnections()
      server.close()
    },
  }
}
