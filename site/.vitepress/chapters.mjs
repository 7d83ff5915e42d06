// The chapters in the order of the course, read from the folders and texts of the repository.
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..')

const read = (file) => fs.readFileSync(path.join(root, file), 'utf8')
const folders = (folder) =>
  fs.readdirSync(path.join(root, folder)).filter((name) => fs.existsSync(path.join(root, folder, name, 'README.md')))

/** "/lessons/01_no_cache/" for lessons/01_no_cache/README.md, "/docs/glossary.html" for docs/glossary.md; the front page is
 *  the site's own, and the README a page beside it. */
export const urlOf = (file) => (file === 'README.md' ? '/readme.html' : '/' + file.replace(/README\.md$/, '').replace(/\.md$/, '.html'))

const readme = read('README.md')

/** What the README's table says of a lesson. */
function row(file) {
  const found = readme.match(new RegExp(`^\\| \\d\\d \\[[^\\]]+\\]\\(${file}\\) \\| (.+?) \\| .* \\| (\\d+) min, (\\d+) lines \\|$`, 'm'))
  if (!found) throw new Error(`README.md: its table has no row "| NN [...](${file}) | idea | gain | N min, N lines |"`)
  return { idea: found[1], minutes: Number(found[2]), lines: Number(found[3]) }
}

/** What the README says first: what the course is, and what hurts; and its paths: [{name, text}]. */
export const front = {
  sentences: readme.match(/^# .*\n+\*(.*)\*\n+([^]*?\.)\s/).slice(1).map((words) => words.replace(/\s+/g, ' ').replace(/\*/g, '')),
  paths: [...readme.match(/^## Three paths\n+([^]*?)\n## /m)[1].matchAll(/^- \*\*(.+?)\*\*[:,] (.*)$/gm)].map(([, name, text]) => ({ name, text })),
}

/** A chapter: where it is, its heading before any colon, and how many steps its exercise has. */
function chapter(file, text) {
  const source = read(file)
  const title = source.match(/^# +(.*)$/m)[1].replace(/[`*]/g, '')
  return {
    file,
    link: urlOf(file),
    text: text ?? title.split(':')[0],
    steps: file.includes('/exercise/') ? (source.match(/^## \d+\. /gm) ?? []).length : 0,
  }
}

// What a reader needs first stands first; pages that are not named here follow.
const docsInOrder = ['using', 'exercises', 'gpu', 'glossary', 'vllm-map', 'how-to-measure', 'serving-costs', 'equal-bits', 'launches', 'attention-measured', 'simt', 'map-of-a-pass', 'architecture', 'decisions', 'proof', 'adding-a-lesson']

function docs() {
  const names = fs.readdirSync(path.join(root, 'docs')).filter((name) => name.endsWith('.md')).map((name) => name.slice(0, -3))
  const place = (name) => (docsInOrder.includes(name) ? docsInOrder.indexOf(name) : docsInOrder.length)
  return names.sort((a, b) => place(a) - place(b) || a.localeCompare(b)).map((name) => chapter(`docs/${name}.md`))
}

function lessons() {
  return folders('lessons').sort().flatMap((name) => {
    const number = name.slice(0, 2)
    const lesson = chapter(`lessons/${name}/README.md`)
    const parts = [['gpu.md', `${number} on a GPU`], ['exercise/README.md', `Exercise ${number}`]]
      .map(([file, text]) => [`lessons/${name}/${file}`, text])
      .filter(([file]) => fs.existsSync(path.join(root, file)))
      .map(([file, text]) => ({ ...chapter(file, text), part: true }))
    return [{ ...lesson, ...row(lesson.file), text: `${number}  ${lesson.text}` }, ...parts]
  })
}

/** Pages beside a lesson that show every version of its kernel. */
function roads() {
  return folders('lessons').sort().map((name) => `lessons/${name}/road/README.md`).filter((file) => fs.existsSync(path.join(root, file)))
}

/** The lessons in four groups, by the last one of each: [{text, chapters}]. */
export const lessonGroups = [['Memory', 4], ['Sharing', 7], ['Serving', 10], ['Beyond the GPU', Infinity]].map(([text, last], i, all) => {
  const isIn = ({ link }) => Number(link.match(/\d\d/)) <= last && Number(link.match(/\d\d/)) > (all[i - 1]?.[1] ?? 0)
  return { text, chapters: lessons().filter(isIn) }
})

/** Groups of chapters, as the sidebar shows them. */
export const groups = [
  { text: 'Begin', chapters: [chapter('README.md', 'The course')] },
  ...lessonGroups,
  { text: 'Kernels', chapters: [...folders('kernels').sort().map((name) => `kernels/${name}/README.md`), ...roads()].map((file) => chapter(file)) },
  { text: 'To look up', chapters: [chapter('instruments/README.md'), chapter('instruments/serve/README.md', 'The server'), chapter('instruments/route/README.md', 'The router'), ...docs(), chapter('models/tiny/README.md'), chapter('CONTRIBUTING.md')] },
]

/** The films of the visualizer that a lesson's text shows, by its number. */
export const films = Object.fromEntries(
  folders('lessons').map((name) => [name.slice(0, 2), read(`lessons/${name}/README.md`).match(/docs\/figures\/viz_\d\d_\w+\.svg/)?.[0]]),
)

export const chapters = groups.flatMap((group) => group.chapters)
