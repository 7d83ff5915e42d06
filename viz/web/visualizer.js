// The visualizer's page: makes the program of viz/shell/web.cpp, hands it what is clicked and typed, and asks
// for a frame whenever the browser draws one.
//   #page=05        opens lesson 05's page
//   #s=...          a scenario: its text in base64url, as Share makes it
//   #play=1         plays at once
//   #embed          without tabs: inside a text
//   #theme=light    not dark; T changes it

'use strict'

const canvas = document.getElementById('canvas')
const message = document.getElementById('message')

/** Points that a page needs; a smaller window shrinks it. On a phone held upright the controls stand below the picture, as large as a finger. */
const least = () => (canvas.clientWidth < 700 && canvas.clientHeight > canvas.clientWidth ? { width: 360, height: 560 } : { width: 960, height: 600 })

const encode = (text) =>
  btoa(String.fromCharCode(...new TextEncoder().encode(text))).replace(/[+]/g, '-').replace(/[/]/g, '_').replace(/=+$/, '')
const decode = (word) =>
  new TextDecoder().decode(Uint8Array.from(atob(word.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0)))

const isLight = () => new URLSearchParams(location.hash.slice(1)).get('theme') === 'light'
document.documentElement.classList.toggle('light', isLight())  // while it loads

let program = null
const events = []  // of the mouse; a frame sees at most one change of its button

function tell(text) {
  message.textContent = text
  message.hidden = text === ''
}

function openWhatTheAddressSays() {
  const wanted = new URLSearchParams(location.hash.slice(1))
  const page = /^[1-9]$/.test(wanted.get('page')) ? `0${wanted.get('page')}` : wanted.get('page') ?? ''
  let scenario = ''
  try {
    scenario = wanted.has('s') ? decode(wanted.get('s')) : ''
  } catch {
    console.error('#s=: not a scenario in base64url')
  }
  program.ccall('web_open', null, ['string', 'string', 'number', 'number', 'number'],
    [page, scenario, wanted.has('embed') ? 1 : 0, wanted.get('play') === '1' ? 1 : 0, isLight() ? 1 : 0])
}

function share(text) {
  const link = `${location.href.split('#')[0]}#s=${encode(text)}`
  history.replaceState(null, '', link)
  navigator.clipboard?.writeText(link).catch(() => {})  // the address bar has it in any case
}

/** In the next frame: what is drawn can be read before the browser shows it. */
let copying = false
const copyPicture = () => { copying = true }
function copyNow() {
  copying = false
  const png = new Promise((resolve) => canvas.toBlob(resolve, 'image/png'))
  navigator.clipboard?.write([new ClipboardItem({ 'image/png': png })]).catch((error) => console.warn(error))
}

// ---- what is clicked and typed

function pointer(event, down) {
  const box = canvas.getBoundingClientRect()
  const x = ((event.clientX - box.left) / box.width) * canvas.width
  const y = ((event.clientY - box.top) / box.height) * canvas.height
  events.push({ x, y, down })
  if (event.pointerType !== 'mouse' && down === false) events.push({ x: -1, y: -1, down })  // a finger hovers nowhere
}

/** A finger that goes up or down scrolls, and presses no button; one that goes sideways slides. */
let finger = null
function drag(event) {
  if (finger.way === '' && Math.hypot(event.clientX - finger.x, event.clientY - finger.y) > 10) {
    finger.way = Math.abs(event.clientY - finger.y) > Math.abs(event.clientX - finger.x) ? 'scrolls' : 'slides'
    if (finger.way === 'scrolls') events.push({ x: -1, y: -1, down: false })
  }
  if (finger.way === 'scrolls') program?._web_wheel((event.clientY - finger.last) / 75)  // of 5 lines, as Dear ImGui has it
  finger.last = event.clientY
  pointer(event, finger.way !== 'scrolls')
}

canvas.addEventListener('pointerdown', (event) => {
  finger = event.pointerType === 'mouse' ? null : { x: event.clientX, y: event.clientY, last: event.clientY, way: '' }
  canvas.focus({ preventScroll: true })
  canvas.setPointerCapture(event.pointerId)
  pointer(event, events.at(-1)?.down ?? false)  // there first, and pressed in the next frame
  pointer(event, true)
})
canvas.addEventListener('pointerup', (event) => pointer(event, false))
canvas.addEventListener('pointercancel', (event) => pointer(event, false))
canvas.addEventListener('pointermove', (event) => finger && event.buttons !== 0 ? drag(event) : pointer(event, event.buttons !== 0))
canvas.addEventListener('pointerleave', () => events.push({ x: -1, y: -1, down: false }))
canvas.addEventListener('wheel', (event) => {
  event.preventDefault()
  program?._web_wheel(-event.deltaY / (event.deltaMode === 0 ? 100 : 3))
}, { passive: false })

function key(event, down) {
  if (!program) return
  const control = event.ctrlKey || event.metaKey
  const keepsTab = program.ccall('web_key', 'number', ['string', 'number', 'number', 'number'], [event.key, down, control ? 1 : 0, event.shiftKey ? 1 : 0])
  const isText = [...event.key].length === 1 && !control
  if (down && isText) program.ccall('web_text', null, ['string'], [event.key])
  // Tab leaves the page, but for a field that it completes, and for the next card.
  if (isText || (keepsTab && event.key === 'Tab') || /^(Arrow|Home|End|Backspace)/.test(event.key) || (control && /^[zyc]$/.test(event.key))) event.preventDefault()
}
canvas.addEventListener('keydown', (event) => key(event, 1))
canvas.addEventListener('keyup', (event) => key(event, 0))

function takeEvents() {
  let last = null
  while (events.length > 0) {
    const next = events[0]
    if (last !== null && next.down !== last.down) break
    last = events.shift()
    if (takeEvents.down !== last.down) {
      takeEvents.down = last.down
      break
    }
  }
  if (last) program._web_mouse(last.x, last.y, last.down ? 1 : 0)
}
takeEvents.down = false

// ---- frames

let before = 0
function frame(now) {
  const sharp = window.devicePixelRatio || 1
  const width = Math.max(1, Math.round(canvas.clientWidth * sharp))
  const height = Math.max(1, Math.round(canvas.clientHeight * sharp))
  if (canvas.width !== width) canvas.width = width
  if (canvas.height !== height) canvas.height = height
  const needs = least()
  const fits = Math.min(canvas.clientWidth / needs.width, canvas.clientHeight / needs.height)
  const grown = Math.floor(8 * Math.min(canvas.clientWidth / 1600, canvas.clientHeight / 1000)) / 8  // a large window: larger letters
  const size = fits < 1 ? fits : Math.max(1, grown)
  takeEvents()
  try {
    program._web_frame(Math.min((now - before) / 1000 || 0.016, 0.1), width, height, Math.max(sharp * size, 0.25))
    if (copying) copyNow()
  } catch (error) {
    console.error(error)
    tell('The visualizer has stopped: an error that is no fault of yours. Reload the page to begin anew.')
    return
  }
  before = now
  if (!document.body.dataset.ready) document.body.dataset.ready = performance.now().toFixed(0)
  requestAnimationFrame(frame)
}

async function start() {
  const [files, model] = await Promise.all([readPack('visualizer'), readPack('model')])
  const script = document.createElement('script')
  script.src = scriptOf(files, 'visualizer')
  await new Promise((resolve, reject) => {
    script.onload = resolve
    script.onerror = () => reject(new Error('its program cannot be read'))
    document.head.append(script)
  })
  program = await createVisualizer({ wasmBinary: files.get('visualizer.wasm'), canvas, share, copyPicture })
  writeFiles(program.FS, files)
  writeFiles(program.FS, model)
  program._web_start(matchMedia('(prefers-reduced-motion: reduce)').matches ? 0 : 1)
  openWhatTheAddressSays()
  addEventListener('hashchange', openWhatTheAddressSays)
  tell('')
  if (!location.hash.includes('embed')) canvas.focus()
  requestAnimationFrame(frame)
}

/** For tests: what stands where, and how the page is. */
window.visualizer = {
  controls: () => JSON.parse(program.UTF8ToString(program._web_controls())),
  state: () => JSON.parse(program.UTF8ToString(program._web_state())),
  scenarios: () => JSON.parse(program.UTF8ToString(program._web_scenarios())),
  encode,
}

start().catch((error) => {
  console.error(error)
  tell(`The visualizer cannot begin: ${error.message}. It wants a browser of 2023 or later, with WebGL 2.`)
})
