// What a reader has read, ticked and answered. It stays in this browser, and nothing is sent anywhere.
import { reactive, watch } from 'vue'

const place = 'page-by-page'

/** read: {link: true}; steps: {link: {number: true}}; answers: {"link name": text}. */
export const notes = reactive({ loaded: false, read: {}, steps: {}, answers: {} })

/** Called when a component is mounted: while pages are built there is no browser. */
export function loadNotes() {
  if (notes.loaded) return
  try {
    const { read = {}, steps = {}, answers = {} } = JSON.parse(localStorage.getItem(place) ?? '{}')
    Object.assign(notes, { read, steps, answers })
  } catch {
    // Not readable, or storage is off: the course works, and forgets.
  }
  notes.loaded = true
  watch([() => notes.read, () => notes.steps, () => notes.answers], save, { deep: true })
}

function save() {
  try {
    const { read, steps, answers } = notes
    localStorage.setItem(place, JSON.stringify({ read, steps, answers }))
  } catch {
    // Storage is off or full.
  }
}

/** The address of a page, as the list of chapters has it. */
export const linkOf = (page) => '/' + page.relativePath.replace(/(^|\/)index\.md$/, '$1').replace(/\.md$/, '.html')

/** How many of its chapters' steps are ticked. */
export const stepsDone = (link) => Object.values(notes.steps[link] ?? {}).filter(Boolean).length
