// A page for each source file that a chapter links, and for the files of each folder that one links.
import fs from 'node:fs'
import path from 'node:path'
import { chapters, root } from '../.vitepress/chapters.mjs'
import { localLinks } from '../.vitepress/markdown/links.mjs'

const languages = { '.h': 'cpp', '.cpp': 'cpp', '.cu': 'cpp', '.cuh': 'cpp', '.py': 'python', '.sh': 'sh' }
const isFolder = (file) => fs.statSync(path.join(root, file)).isDirectory()
const inside = (folder) => fs.readdirSync(path.join(root, folder)).sort().map((name) => `${folder}/${name}`)

/** A folder is a list of its files, a file is its text. */
function content(file) {
  if (isFolder(file)) return `# ${file}\n\n` + inside(file).map((name) => `- [${path.basename(name)}](/source/${name}.html)`).join('\n')
  const text = fs.readFileSync(path.join(root, file), 'utf8')
  const fence = '`'.repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map((match) => match[0].length + 1)))
  return `# ${file}\n\n${fence}${languages[path.extname(file)] ?? 'txt'}:line-numbers\n${text}${fence}\n`
}

export default {
  paths() {
    const linked = chapters.flatMap(({ file }) => localLinks(file).map((link) => link.file))
    const files = linked.flatMap((file) => (isFolder(file) ? [file, ...inside(file)] : [file]))
    return [...new Set(files)].map((file) => ({ params: { path: file }, content: content(file) }))
  },
}
