// What a reader does, in Chromium.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { base, chapters, hasVisualizer, reader } from './site.mjs'

const lesson = chapters.find(({ link }) => link.includes('/05_')).link
const exercise = chapters.find(({ link, steps }) => link.includes('/05_') && steps)
const first = chapters.find(({ link }) => link.includes('/01_')).link

let browser
before(async () => (browser = await reader()))
after(() => browser.close())

test('the first chapter with all its pictures is less than 300 KB', async () => {
  const { page } = await browser.open('/source/LICENSE.html')
  const session = await page.context().newCDPSession(page)
  await session.send('Network.enable')
  await session.send('Network.setCacheDisabled', { cacheDisabled: true })
  let bytes = 0
  const elsewhere = []
  page.on('request', (request) => request.url().startsWith(browser.address) || elsewhere.push(request.url()))
  session.on('Network.loadingFinished', ({ encodedDataLength }) => (bytes += encodedDataLength))
  await page.goto(base + first.slice(1), { waitUntil: 'networkidle' })
  for (const picture of await page.locator('.vp-doc a.picture').all()) await picture.scrollIntoViewIfNeeded()
  await page.waitForLoadState('networkidle')
  console.log(`first chapter: ${Math.round(bytes / 1024)} KB compressed, pictures and scripts included`)
  assert.deepEqual(elsewhere.filter((url) => !url.startsWith('data:')), [], 'nothing comes from anywhere else')
  assert.ok(bytes > 20_000 && bytes < 300 * 1024, `${bytes} bytes`)
})

test('a prediction is asked for before its resolution shows, and kept', async () => {
  const { page, errors } = await browser.open(lesson)
  const resolutions = page.locator('#prediction-1 ~ .resolution')
  const resolution = resolutions.first()
  assert.ok(!(await resolution.isVisible()))
  const keep = page.locator('#prediction-1').getByText('Keep it')
  assert.ok(await keep.isDisabled())
  await page.locator('#prediction-1 textarea').fill('eight, or twenty')
  await keep.click()
  assert.match(await page.locator('#prediction-1').innerText(), /eight, or twenty/)
  assert.match(await resolution.innerText(), /./)
  assert.ok(!(await resolutions.nth(1).isVisible()))
  await page.reload()
  await resolution.waitFor({ state: 'visible' })
  await page.locator('#prediction-2').getByText('I have no idea').click()
  assert.ok(await resolutions.nth(1).isVisible())
  assert.deepEqual(errors, [])
})

test('a folded question asks first, too', async () => {
  const { page } = await browser.open(lesson)
  const question = page.locator('details', { hasText: 'Sample 2 of four is cancelled' })
  await question.locator('summary').click()
  const answer = question.getByText('whose count falls to zero')
  assert.ok(!(await answer.isVisible()))
  await question.locator('textarea').fill('nothing')
  await question.getByText('Keep it').click()
  assert.ok(await answer.isVisible())
})

test('without scripts nothing is hidden', async () => {
  const { page } = await browser.open('/source/LICENSE.html')
  const plain = await page.context().browser().newContext({ javaScriptEnabled: false, baseURL: browser.address })
  const still = await plain.newPage()
  await still.goto(base + lesson.slice(1))
  assert.ok(await still.locator('#prediction-1 + .resolution').isVisible())
})

test('what is read and done is marked, and stays so', async () => {
  const { page } = await browser.open(exercise.link)
  await page.getByLabel('Step 1 passes its tests').check()
  await page.goto(base + lesson.slice(1))
  await page.getByLabel('I have read this chapter').check()
  await page.reload()
  const mark = (link) => page.locator(`.VPSidebar a[href="${base + link.slice(1)}"] .text`)
    .evaluate((text) => getComputedStyle(text, '::after').content)
  await page.waitForFunction(() => [...document.querySelectorAll('style')].some((style) => style.textContent.includes('✓')))
  assert.match(await mark(lesson), /✓/)
  assert.match(await mark(exercise.link), new RegExp(`1/${exercise.steps}`))
  assert.equal(await mark(first), 'none')
  await page.goto(base)
  const lessons = chapters.filter(({ link }) => /^\/lessons\/\d\d_[a-z0-9_]+\/$/.test(link)).length
  assert.match(await page.locator('.progress').innerText(), new RegExp(`^1 of ${lessons} lessons read, 1 of \\d+ exercise steps done`))
  assert.match(await page.locator('.progress a').getAttribute('href'), /\/06_/, 'on from the last one that was read')
  assert.match(await page.locator('.cards li:has(.read)').innerText(), /^05 .*\n✓/)
})

/** Scrolled to, and the scroll event is over: it would close a tip. */
async function inView(locator) {
  await locator.scrollIntoViewIfNeeded()
  await locator.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))
  return locator
}

test("a term shows its meaning to a pointer, a keyboard and a finger", async () => {
  const { page } = await browser.open(lesson)
  const term = page.locator('a.term[href$="#reference-count"]').first()
  const tip = page.locator('#term-tip')
  await (await inView(term)).hover()
  await tip.getByText('the number of holders of a').waitFor()
  await tip.hover()
  await page.waitForTimeout(300)
  assert.ok(await tip.isVisible(), 'the pointer may go into it')
  await page.keyboard.press('Escape')
  assert.ok(!(await tip.isVisible()))
  await page.mouse.move(0, 0)
  await term.focus()
  await tip.getByText('the number of holders of a').waitFor()
  assert.equal(await term.getAttribute('aria-describedby'), 'term-tip')

  const phone = await browser.open(lesson, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true })
  const touched = await inView(phone.page.locator('a.term').first())
  await touched.tap()
  await phone.page.locator('#term-tip strong').waitFor()
  const address = phone.page.url()
  await touched.tap()
  await phone.page.waitForURL((url) => url.href !== address && url.pathname.endsWith('glossary.html'))
})

test('the search finds a chapter, code is copied, the dark stays', async () => {
  const { page, errors } = await browser.open(lesson, { permissions: ['clipboard-read', 'clipboard-write'] })
  await page.locator('div[class*="language-"] button.copy').first().click({ force: true })
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /course run 4/)
  await page.locator('.VPNavBarAppearance .VPSwitch').click()
  await page.reload()
  assert.ok(await page.evaluate(() => document.documentElement.classList.contains('dark')))
  await page.locator('.VPNavBarSearch button').click()
  await page.locator('#localsearch-input').fill('preemption')
  await page.locator('.result').first().waitFor()
  await page.locator('.result', { hasText: 'scheduler' }).first().click()
  await page.waitForURL(/08_scheduler/)
  await page.locator('.VPNavBarSearch button').click()
  await page.locator('#localsearch-input').fill('copy on write')
  await page.locator('.result mark', { hasText: /write/i }).first().waitFor()  // not those of the last search
  assert.match(await page.locator('.result').first().getAttribute('href'), /lessons\/05_refcount_cow\/(#|$)/, 'a lesson comes first')
  assert.ok((await page.locator('.result .excerpt').count()) > 0, 'lines of the text show')
  await page.locator('#localsearch-input').fill('belady')
  await page.locator('.result mark', { hasText: /belady/i }).first().waitFor()
  assert.match(await page.locator('.result').first().getAttribute('href'), /glossary\.html#beladys-rule$/, 'a term has its own place')
  assert.deepEqual(errors, [])
})

test('the search finds a page by its name and by the words of the field', async () => {
  const { page, errors } = await browser.open('/source/LICENSE.html')
  await page.locator('.VPNavBarSearch button').click()
  for (const [words, first] of Object.entries({
    map: /vllm-map|map-of-a-pass/, 'map to vLLM': /vllm-map/, proof: /proof/, gpu: /docs\/gpu/, exercises: /docs\/exercises/,
    'paged attention': /04_/, 'copy on write': /05_/, 'prefix caching': /06_/, eviction: /07_/, preemption: /08_/,
    'speculative decoding': /09_/, swapping: /11_/, quantization: /14_/, quantisation: /14_/,
    'continuous batching': /continuous-batching/, warp: /glossary.html#warp$/,
  })) {
    await page.locator('#localsearch-input').fill(words)
    const found = page.locator('.result').first()
    await page.waitForFunction((first) => new RegExp(first).test(document.querySelector('.result')?.getAttribute('href')), first.source, { timeout: 10_000 })
      .catch(async () => assert.match(await found.getAttribute('href'), first, words))
  }
  await page.locator('.result .excerpt', { hasText: '32 threads of a' }).first().waitFor() // what a term means
  await page.locator('#localsearch-input').fill('continuous batching')
  await page.locator('.result[href*="/lessons/08_"]').first().waitFor()
  assert.deepEqual(errors, [])
})

test('the glossary has letters, and a field that leaves the terms that are wanted', async () => {
  const { page, errors } = await browser.open('/docs/glossary.html')
  const rows = page.locator('.terms h2:visible')
  const all = await rows.count()
  const top = async (selector) => (await page.locator(selector).boundingBox()).y
  assert.ok((await top('h1')) < (await top('.glossary')), 'the heading is above the letters')
  assert.ok((await top('.glossary')) < (await top('.terms')), 'the letters are above the terms')
  await page.getByRole('searchbox', { name: 'Find a term' }).fill('block table')
  await page.getByRole('status').getByText(` of ${all} terms`).waitFor()
  const left = await rows.count()
  assert.ok(left > 0 && left < 10, `${left} terms`)
  await page.locator('.glossary a', { hasText: /^S$/ }).click()
  assert.equal(await rows.count(), all, 'a letter shows all terms')
  assert.match(page.url(), /#[s][a-z0-9-]+$/)
  await page.goto(`${base}docs/glossary.html#hopper`)
  assert.ok(await page.getByText('two generations of NVIDIA').evaluate((meaning) => meaning.getBoundingClientRect().top < innerHeight), 'a second name has an address')
  assert.deepEqual(errors, [])
})

/** Whether what an element shows is the same a little later. */
async function standsStill(page, locator) {
  const before = await locator.screenshot()
  await page.waitForTimeout(700)
  return before.equals(await locator.screenshot())
}

test('a film can be paused and walked through, by keys too, and has the colours of the page', async () => {
  const { page, errors } = await browser.open(lesson, { reducedMotion: 'no-preference' })
  const film = page.locator('.film').first()
  const picture = await inView(film.locator('.picture'))
  const pause = film.getByRole('button', { name: 'Pause the film' })
  await pause.waitFor()
  assert.ok(!(await standsStill(page, picture)), 'it plays')
  await film.getByRole('slider').focus()
  await page.keyboard.press('Shift+Tab')
  assert.ok(await pause.evaluate((button) => button === document.activeElement && getComputedStyle(button).outlineStyle !== 'none'), 'it has the focus, and shows it')
  await page.keyboard.press('Space')
  await film.getByRole('button', { name: 'Play the film' }).waitFor()
  let tries = 10 // a busy machine paints later
  while (!(await standsStill(page, film)) && --tries);
  assert.ok(tries > 0, 'it is paused')
  await page.keyboard.press('Tab')
  const before = await picture.screenshot()
  await page.keyboard.press('Home')
  assert.match(await film.getByRole('slider', { name: 'Moment of the film' }).getAttribute('aria-valuetext'), /^0 of 1\d seconds$/)
  for (let i = 0; i < 20; ++i) await page.keyboard.press('ArrowRight')
  assert.ok(!before.equals(await picture.screenshot()), 'another moment')
  const light = await picture.screenshot()
  await page.locator('.VPNavBarAppearance .VPSwitch').click()
  await inView(picture)
  assert.ok(!light.equals(await picture.screenshot()), 'dark with the page')
  await film.getByRole('button', { name: 'Play the film' }).click()
  assert.ok(!(await standsStill(page, picture)), 'it plays again')
  assert.deepEqual(errors, [])
})

test('a film stands still for a reader who wants no motion until it is asked to play, and without scripts', async () => {
  const { page } = await browser.open(lesson, { reducedMotion: 'reduce' })
  const picture = await inView(page.locator('.film .picture').first())
  const play = page.locator('.film').first().getByRole('button', { name: 'Play the film' })
  await play.waitFor()
  assert.ok(await standsStill(page, picture))
  await play.click()
  assert.ok(!(await standsStill(page, picture)))
  const plain = await page.context().browser().newContext({ javaScriptEnabled: false, baseURL: browser.address })
  const still = await plain.newPage()
  await still.goto(base + lesson.slice(1))
  const image = still.locator('.film img').first()
  await image.scrollIntoViewIfNeeded()
  let calm = false
  for (let i = 0; i < 10 && !calm; ++i) calm = await standsStill(still, image) // pictures above it may still come
  assert.ok(calm, 'without scripts')
})

test('on a phone films and pictures are whole, and a tap pauses a film', async () => {
  const { page, errors } = await browser.open(lesson, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, reducedMotion: 'no-preference' })
  const film = page.locator('.film').first()
  await inView(film)
  await film.getByRole('button', { name: 'Pause the film' }).waitFor()
  const { left, right } = await film.locator('svg').evaluate((svg) => svg.getBoundingClientRect())
  assert.ok(left >= 0 && right <= 390, `from ${left} to ${right}`)
  const ends = await page.locator('a.picture img').evaluateAll((all) => all.map((one) => one.getBoundingClientRect().right))
  assert.ok(ends.length > 2 && ends.every((end) => end <= 390), `${ends}`)
  const address = page.url()
  await film.locator('.picture').tap()
  await film.getByRole('button', { name: 'Play the film' }).waitFor()
  assert.equal(page.url(), address)
  assert.deepEqual(errors, [])
})

test('code and tables have the width that they need', async () => {
  for (const width of [1280, 1440, 1499, 1600]) {
    const { page } = await browser.open('/readme.html', { viewport: { width, height: 900 } })
    const cut = await page.locator('.vp-doc pre').evaluateAll((blocks) => blocks.filter((pre) => pre.scrollWidth > pre.clientWidth + 1).length)
    assert.equal(cut, 0, `${width} pixels`)
    await page.context().close()
  }
})

test('a listing begins in its first column, and short code stays in one line', async () => {
  for (const link of ['/lessons/03_paged_blocks/', '/docs/using.html']) {
    const { page } = await browser.open(link, { viewport: { width: 390, height: 844 } })
    const indented = await page.locator('.vp-doc pre code').evaluateAll((all) => all.map((code) => code.textContent).filter((text) => /\S/.test(text) && !/^\S/m.test(text)))
    assert.deepEqual(indented, [], link)
    const broken = await page.locator('.vp-doc :not(pre) > code').evaluateAll((all) =>
      all.filter((code) => code.textContent.length <= 20 && code.getClientRects().length > 1).map((code) => code.textContent))
    assert.deepEqual(broken, [], link)
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390, link)
    await page.context().close()
  }
})

test('an address without a page leads to the first page', async () => {
  const context = await browser.open('/')
  const answer = await context.page.goto(`${base}nothing.html`)
  assert.equal(answer.status(), 404)
  await context.page.getByText('There is no such page').waitFor()
  await context.page.getByText('To the first page').click()
  await context.page.locator('.front h1').waitFor()
})

test('the menu, the text and the list of headings stand side by side in every window', async () => {
  for (const width of [1280, 1440, 1500, 1600, 1920]) {
    const { page } = await browser.open(lesson, { viewport: { width, height: 900 } })
    const box = (selector) => page.locator(selector).evaluate((element) => element.getBoundingClientRect().toJSON())
    const [menu, text, bar] = [await box('.VPSidebar'), await box('.VPDoc .content-container'), await box('.VPNavBarAppearance')]
    for (const entry of await page.locator('.VPSidebarItem.level-1 .text').all()) {
      const { left, right } = await entry.evaluate((element) => element.getBoundingClientRect())
      assert.ok(left >= 16 && right <= menu.right, `${width}: an entry of the menu from ${left} to ${right}, the menu ends at ${menu.right}`)
    }
    assert.ok(bar.right <= width - 24, `${width}: the bar ends at ${bar.right}`)
    const list = await box('.VPDoc .aside')
    assert.equal(list.width > 180, width >= 1440, `${width}: the list of headings is ${list.width} pixels wide`)
    const end = list.width ? list.left : width
    assert.ok(menu.right + 24 <= text.left && text.right + 24 <= end, `${width}: ${menu.right}, ${text.left} to ${text.right}, ${end}`)
    if (!list.width) assert.ok(Math.abs(menu.right + width - text.left - text.right) < 32, `${width}: the text is in the middle`)
    await page.context().close()
  }
})

test('the menu shows the open chapter, and the Tab key stops once at each', async () => {
  const last = chapters.findLast(({ link }) => link.startsWith('/lessons/'))
  const { page, errors } = await browser.open(last.link)
  const isSeen = () => page.waitForFunction(() => {
    const [menu, open] = ['.VPSidebar', '.VPSidebar .is-active > .item'].map((selector) => document.querySelector(selector)?.getBoundingClientRect())
    return open && menu && open.top >= 64 && open.bottom <= menu.bottom
  })
  await isSeen()
  await page.locator('.VPNavBarMenu').getByText('Glossary').click()
  await page.waitForURL(/glossary/)
  await isSeen()
  const stops = await page.locator('.VPSidebar').evaluate((menu) => [...menu.querySelectorAll('a, button, [tabindex="0"]')].map(({ tagName }) => tagName))
  assert.deepEqual(stops, chapters.map(() => 'A'))
  assert.deepEqual(errors, [])
})

test('on a phone a row of a wide table is a card, whose cells have their headings', async () => {
  const { page } = await browser.open('/docs/vllm-map.html', { viewport: { width: 390, height: 844 } })
  const cells = page.locator('.vp-doc tbody tr').first().locator('td')
  const boxes = await cells.evaluateAll((cells) => cells.map((cell) => cell.getBoundingClientRect().toJSON()))
  boxes.forEach(({ left, right, top }, i) => assert.ok(right - left > 250 && (!i || top >= boxes[i - 1].bottom), `cell ${i} from ${left} to ${right}`))
  assert.deepEqual(await cells.evaluateAll((cells) => cells.map((cell) => getComputedStyle(cell, '::before').content)), ['"here"', '"vLLM"', '"note"'])
})

test('after the idea there is the visualizer, or why there is none', async () => {
  const { page, errors } = await browser.open(lesson)
  if (!hasVisualizer) {
    assert.match(await page.locator('.visualizer-note').innerText(), /without the visualizer/)
    return
  }
  const after = page.locator('.visualizer ~ p').first()
  const place = () => after.evaluate((text) => text.getBoundingClientRect().top + scrollY)
  const before = await place()
  await page.getByText('Start the page here').click()
  const frame = page.locator('.visualizer iframe')
  assert.equal(await frame.getAttribute('src'), `${base}viz/index.html#page=05&theme=light&embed`)
  const content = await (await frame.elementHandle()).contentFrame()
  await content.waitForFunction(() => document.body?.dataset.ready, null, { timeout: 60_000 })
  assert.equal(await content.evaluate(() => visualizer.state().page), '05')
  assert.deepEqual(errors, [])
  assert.ok(Math.abs(await place() - before) < 1, 'the text does not move')
  const box = await frame.boundingBox()
  assert.ok(box.width > 800 && box.x + box.width < 1280, `from ${box.x}, ${box.width} pixels`)
  await page.setViewportSize({ width: 390, height: 844 })
  await page.waitForFunction(() => document.querySelector('.visualizer iframe').getBoundingClientRect().right < 390)
  for (const [width, height] of [[390, 844], [390, 640], [844, 390]]) {
    await page.setViewportSize({ width, height })
    const fits = await page.waitForFunction((room) => document.querySelector('.visualizer iframe').getBoundingClientRect().height <= room, height - 64).catch(() => null)
    assert.ok(fits, `picture and player are on the screen of ${width}x${height} at once`)
  }
  await page.setViewportSize({ width: 390, height: 844 })
  await page.reload()
  const [poster, picture, start] = await Promise.all(['.visualizer-box', '.visualizer-box .picture', '.start'].map((name) => page.locator(name).boundingBox()))
  assert.ok(picture.height > 100 && poster.height < picture.height + 100, `a picture of ${picture.height} in a place of ${poster.height}`)
  assert.ok(start.y > poster.y + poster.height, 'what starts it covers nothing of the picture')
  assert.equal((await page.content()).split('figures/viz_05_fork_and_copy.svg#still').length - 1, 1, 'the picture is there once')
  await page.getByText('Start the page here').click()
  await page.waitForFunction(() => {
    const { top, bottom, width, height } = document.querySelector('.visualizer iframe').getBoundingClientRect()
    return width > 380 && height > 700 && top >= 48 && bottom <= innerHeight
  })
  await page.goto(`${base}viz/ladder.html`)
  assert.equal(await page.evaluate(() => document.querySelectorAll('tbody a')[4].pathname), base + lesson.slice(1))
  await page.goto(`${base}viz/index.html#page=05`)
  await page.locator('#text').click()
  await page.waitForURL(/05_refcount_cow/)
})
