// Every link, picture and anchor of the built site leads somewhere.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { base, chapters, out, pages } from './site.mjs'

const texts = new Map(pages().map((page) => [page, fs.readFileSync(path.join(out, page), 'utf8')]))
const unescaped = (text) => text.replace(/&amp;/g, '&').replace(/&quot;/g, '"').replace(/&#39;/g, "'")
const values = (text, name) => [...text.matchAll(new RegExp(`<[^>]*?\\s${name}="([^"]*)"`, 'g'))].map((match) => unescaped(match[1]))
const ids = new Map([...texts].map(([page, text]) => [page, new Set([...values(text, 'id'), ...values(text, 'name')])]))
const isElsewhere = (url) => /^(https?|data|mailto):/.test(url)

/** Why a link of a page leads nowhere; nothing if it leads somewhere. */
function wrong(page, url) {
  const { pathname, hash } = new URL(url, `http://site${base}${page}`)
  if (!pathname.startsWith(base)) return 'is outside the site'
  let file = decodeURIComponent(pathname.slice(base.length))
  if (file === '' || file.endsWith('/')) file += 'index.html'
  if (!fs.existsSync(path.join(out, file))) return 'leads nowhere'
  if (hash && ids.has(file) && !ids.get(file).has(decodeURIComponent(hash.slice(1)))) return 'has an anchor that is not there'
}

test('every link and every picture leads somewhere', () => {
  let count = 0
  const found = [...texts].flatMap(([page, text]) =>
    [...values(text, 'href'), ...values(text, 'src')].filter((url) => !isElsewhere(url)).flatMap((url) => {
      ++count
      const why = wrong(page, url)
      return why ? [`${page}: ${url} ${why}`] : []
    }))
  assert.deepEqual([...new Set(found)], [])
  assert.ok(count > 100 * chapters.length, `only ${count} links were seen`)
})

test('every picture says what it shows', () => {
  for (const [page, text] of texts) assert.ok(!/<img(?![^>]*\salt="[^"]+")/.test(text), `${page}: a picture without words`)
})

test('every picture that moves can be paused', () => {
  const moves = (url) => url.endsWith('.svg') && fs.readFileSync(path.join(out, url.slice(base.length)), 'utf8').includes('@keyframes')
  for (const [page, text] of texts) {
    const images = [...text.matchAll(/<img[^>]*\ssrc="([^"]*)"/g)].map((match) => match[1])
    assert.deepEqual(images.filter((url) => url.startsWith(base) && moves(url)), [], `${page}: an <img> that moves`)
  }
})

test('a lesson leads to the next lesson, and to its GPU page and exercise beside it', () => {
  const text = ({ link }) => texts.get(link.slice(1).replace(/\/$/, '/index.html'))
  const next = (chapter) => text(chapter).match(/<a[^>]*pager-link next[^>]*href="([^"]*)"/)?.[1]
  const lessons = chapters.filter(({ minutes }) => minutes)
  lessons.slice(1).forEach((lesson, i) => assert.equal(next(lessons[i]), base + lesson.link.slice(1), lessons[i].link))
  for (const part of chapters.filter(({ part }) => part)) {
    const lesson = lessons.find(({ link }) => part.link.startsWith(link))
    for (const [page, other] of [[lesson, part], [part, lesson]]) {
      assert.ok(text(page).match(/class="parts"[^]*?<\/nav>/)[0].includes(`href="${base}${other.link.slice(1)}"`), page.link)
    }
    if (lesson !== lessons.at(-1)) assert.equal(next(part), next(lesson), part.link)
  }
  assert.ok(lessons.length >= 12)
})

test('the front page has a card for each lesson, as the README has it', () => {
  const front = texts.get('index.html')
  for (const { link, minutes, lines } of chapters.filter(({ minutes }) => minutes)) {
    assert.ok(front.includes(`href="${base}${link.slice(1)}"`), link)
    assert.ok(front.includes(`${minutes} min to read, ${lines} lines to write`), link)
  }
  for (const words of ['C++20', 'CUDA', 'You need no GPU']) assert.ok(front.includes(words), words)
  for (const name of ['gpu', 'vllm-map', 'proof', 'glossary']) assert.ok(front.includes(`<a href="${base}docs/${name}.html"`), name)
  assert.match(front, /A course: in fourteen lessons[^]*An LLM server fills its memory[^]*Begin with lesson 01[^]*lesson 05.{1,5}s pool[^]*[Rr]un all 14 engines[^]*An evening/)
})

test("the repository's own marks do not show", () => {
  for (const [page, text] of texts) {
    if (page.startsWith('source/')) continue
    assert.ok(!/<!--\s*(quote|output|number|measured|end of measured)\b/.test(text), page)
    assert.ok(!/(?:&lt;|<)(OwnAnswer|Resolution|StepMark|VisualizerPage)\b/i.test(text), page)
  }
})
