// Links and pictures: what is relative on disk becomes an address of the site.
import fs from 'node:fs'
import path from 'node:path'
import { chapters, root, urlOf } from '../chapters.mjs'

const pages = new Set(chapters.map((chapter) => chapter.file))

/** The file in the repository that a link of a text means. */
function target(env, url) {
  const [file, anchor] = url.split('#')
  const from = path.dirname(path.relative(root, env.realPath ?? env.path))
  const to = path.normalize(path.join(from, decodeURI(file))).replace(/\/$/, '')
  if (to.startsWith('..') || !fs.existsSync(path.join(root, to))) throw new Error(`${env.path}: ${url} leads nowhere`)
  return { file: to, anchor: anchor ? '#' + anchor : '' }
}

/** Files and folders that are no chapter have a page that shows them: source/[path].md. */
export const sourceUrl = (file) => `/source/${file}.html`

const isLocal = (url) => !/^([a-z]+:|#|\/)/i.test(url)

/** Every local link of a text, as {file, anchor}; the pages of source code are made from these. */
export function localLinks(file) {
  const text = fs.readFileSync(path.join(root, file), 'utf8').replace(/^```.*?^```/gms, '').replace(/`[^`\n]*`/g, '')
  const urls = [...text.matchAll(/(?<!!)\[[^\]]*\]\(([^)\s]+)\)/g)].map((match) => match[1]).filter(isLocal)
  return urls.map((url) => target({ path: path.join(root, file) }, url)).filter(({ file }) => !pages.has(file))
}

export function size(file) {
  if (file.endsWith('.png')) {
    const bytes = fs.readFileSync(file)
    return { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) }
  }
  const svg = fs.readFileSync(file, 'utf8').slice(0, 2000)
  const [, width, height] = svg.match(/viewBox=["'][\d.-]+ [\d.-]+ ([\d.]+) ([\d.]+)/) ?? []
  return width ? { width: Math.round(width), height: Math.round(height) } : {}
}

/** A picture leads to itself: on a phone that is how to see it large. One that moves is a film. */
function picture(md, env, token, base) {
  const file = target(env, token.attrGet('src')).file
  const { width, height } = size(path.join(root, file))
  const url = md.utils.escapeHtml(base + encodeURI(file))
  const alt = md.utils.escapeHtml(token.content)
  const sized = width ? ` width="${width}" height="${height}"` : ''
  if (isFilm(file)) return `<Film src="${url}" alt="${alt}"${sized} />`
  return `<a class="picture" href="${url}" target="_self"><img src="${url}" alt="${alt}"${sized} loading="lazy"></a>`
}

const isFilm = (file) => file.endsWith('.svg') && fs.readFileSync(path.join(root, file), 'utf8').includes('@keyframes')

export function links(md, base) {
  md.core.ruler.push('site_links', (state) => {
    for (const token of state.tokens.flatMap((token) => token.children ?? [])) {
      const url = token.type === 'link_open' && token.attrGet('href')
      if (!url || !isLocal(url)) continue
      const { file, anchor } = target(state.env, url)
      token.attrSet('href', (pages.has(file) ? urlOf(file) : sourceUrl(file)) + anchor)
    }
  })
  md.renderer.rules.image = (tokens, i, options, env) => picture(md, env, tokens[i], base)
}
