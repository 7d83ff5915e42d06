// Links from these pages to the texts of the course: of the site around them, or else of the repository that they were
// made in. contents.js says which.

'use strict'

/** The address of a text by its file in the repository; empty if these pages do not know where that is. */
function addressOf(file) {
  if (inSite) return `../${file.replace(/README[.]md$/, '').replace(/[.]md$/, '.html')}`
  const here = location.pathname.replace(/[^/]*$/, '')
  return madeIn && here.endsWith(`/${madeIn}/`) ? here.slice(0, -madeIn.length - 1) + file : ''
}

/** The file of the text about a page of the visualizer. */
function textOf(page) {
  const lesson = lessons.find((name) => name.startsWith(`${page}_`))
  return lesson ? `lessons/${lesson}/README.md` : page === 'warp' ? 'docs/simt.md' : 'instruments/README.md'
}

/** Leads a link there; without an address it leads nowhere. */
const lead = (link, address) => (address ? (link.href = address) : link.removeAttribute('href'))

lead(document.getElementById('home'), addressOf(inSite ? 'index.md' : 'README.md'))
