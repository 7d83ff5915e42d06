// The front page and every chapter: no serious finding of axe in the light or the dark, nothing wider than a phone, a quiet console.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { after, before, test } from 'node:test'
import { chapters, reader } from './site.mjs'

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js')

let browser
before(async () => (browser = await reader()))
after(() => browser.close())

/** The serious findings, one line each. */
async function findings(page, options) {
  const { violations } = await page.evaluate((options) => window.axe.run(document, { resultTypes: ['violations'], ...options }), options)
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) => `${id}: ${target} ${failureSummary}`))
}

/** What is wider than the window, but for what scrolls by itself. */
const tooWide = (page) =>
  page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement
    return scrollWidth > clientWidth ? [`${scrollWidth} pixels in a window of ${clientWidth}`] : []
  })

for (const { link } of [{ link: '/' }, ...chapters, { link: '/source/kernels/launch.cuh.html' }]) {
  test(`${link} is accessible, and fits a phone`, async () => {
    const { page, errors } = await browser.open(link, { colorScheme: 'light', reducedMotion: 'reduce' })
    await page.evaluate(() => document.querySelectorAll('details').forEach((details) => (details.open = true)))
    await page.addScriptTag({ path: axe })
    assert.deepEqual(await findings(page, {}), [], 'light')
    await page.evaluate(() => document.querySelectorAll('.own-answer .quiet').forEach((noIdea) => noIdea.click()))
    await page.emulateMedia({ colorScheme: 'dark' })
    await page.waitForFunction(() => document.documentElement.classList.contains('dark'))
    assert.deepEqual(await findings(page, { runOnly: ['color-contrast', 'link-in-text-block'] }), [], 'dark')
    await page.setViewportSize({ width: 360, height: 740 })
    assert.deepEqual(await tooWide(page), [], 'on a phone')
    assert.deepEqual(errors, [])
    await page.context().close()
  })
}
