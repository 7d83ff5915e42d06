// The visualizer's page: makes the program of viz/shell/web.cpp, hands it what is clicked and typed, and asks
// for a frame whenever the browser draws one.
//   #page=05        opens lesson 05's page
//   #s=...          a scenario: its text in base64url, as Share makes it
//   #step=4         a scenario after its fourth step
//   #play=1         plays at once
//   #embed          without tabs: inside a text
//   #theme=light    not as the browser is, dark or light; T changes it
// The same words may follow a question mark, as links from elsewhere have them.

'use strict'

const canvas = document.getElementById('canvas')
const message = document.getElementById('message')
const keyboard = document.getElementById('keyboard')
const progress = document.querySelector('progress')

/** Points that a page needs; a smaller window shrinks it. On a phone controls are as large as a finger: below the picture if it is held upright. */
function least() {
  const { clientWidth: width, clientHeight: height } = canvas
  if (width < 700 && height > width) return { width: 360, height: 560 }
  return width < 1000 && height < 480 ? { width: 760, height: 340 } : { width: 960, height: 600 }
}

const encode = (text) =>
  btoa(String.fromCharCode(...new TextEncoder().encode(text))).replace(/[+]/g, '-').replace(/[/]/g, '_').replace(/=+$/, '')
const decode = (word) =>
  new TextDecoder().decode(Uint8Array.from(atob(word.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0)))

const address = () => new URLSearchParams(`${location.hash.slice(1)}&${location.search.slice(1)}`)
const isEmbedded = () => address().has('embed')
const lightBrowser = matchMedia('(prefers-color-scheme: light)')
const isLight = () => (address().get('theme') ?? (lightBrowser.matches ? 'light' : 'dark')) === 'light'
const themeShown = (light) => { document.documentElement.style.colorScheme = light ? 'light' : 'dark' }
themeShown(isLight())  // while it loads
document.documentElement.classList.toggle('embed', isEmbedded())
if (isEmbedded()) canvas.style.touchAction = 'pan-y'  // a finger scrolls the text around it

let program = null
const events = []  // of the mouse; a frame sees at most one change of its button

function tell(text) {
  message.firstElementChild.textContent = text
  message.hidden = text === ''
  progress.hidden = true
}

function openWhatTheAddressSays() {
  const wanted = address()
  const named = wanted.get('page') ?? (wanted.has('s') ? '' : lessons[0].slice(0, 2))
  const page = /^[1-9]$/.test(named) ? `0${named}` : named
  let scenario = wanted.get('s') ?? ''
  try {
    scenario = decode(scenario)
  } catch {
    // Not in base64url: the program says of these words, too, what is wrong with them.
  }
  program._web_theme(isLight() ? 1 : 0)
  program.ccall('web_open', null, ['string', 'string', 'number', 'number', 'number'],
    [page, scenario, isEmbedded() ? 1 : 0, wanted.get('play') === '1' ? 1 : 0, Number(wanted.get('step')) || 0])
  wake()
}

/** The title and the link to the text follow the page. One that was opened by hand is an entry of history: Back leads to the page before. */
function pageOpened(lesson, title, byHand) {
  const text = document.getElementById('text')
  text.textContent = /^\d/.test(lesson) ? `Read lesson ${lesson}` : 'Read about it'
  lead(text, addressOf(textOf(lesson)))
  document.title = `${/^\d/.test(lesson) ? `${lesson} ` : ''}${title} | Page by Page`
  if (!byHand) return
  const words = new URLSearchParams(location.hash.slice(1))
  for (const word of ['s', 'step', 'play']) words.delete(word)
  words.set('page', lesson)
  history.pushState(null, '', `#${words}`)
}

function share(text, step) {
  const link = `${location.href.split('#')[0]}#s=${encode(text)}&step=${step}`
  history.replaceState(null, '', link)
  navigator.clipboard?.writeText(link).catch(() => {})  // the address bar has it in any case
  return navigator.clipboard ? 1 : 0
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

/** Where an event is, in pixels of the canvas. */
function at(event) {
  const box = canvas.getBoundingClientRect()
  return { x: ((event.clientX - box.left) / box.width) * canvas.width, y: ((event.clientY - box.top) / box.height) * canvas.height }
}
const nowhere = { x: -1, y: -1 }

function pointer(event, down) {
  events.push({ ...at(event), down })
  if (event.pointerType !== 'mouse' && down === false) events.push({ ...nowhere, down })  // a finger hovers nowhere
}
function press(event) {
  pointer(event, events.at(-1)?.down ?? false)  // there first, and pressed in the next frame
  pointer(event, true)
}

/**
 * A finger presses nothing before its way is known: it taps, pans the picture, slides a control sideways, or scrolls up and
 * down. Inside a text it scrolls the text, which is the browser's to do, unless there is more of the picture that way.
 */
let finger = null
function follow(event) {
  const right = event.clientX - finger.start.clientX, down = event.clientY - finger.start.clientY
  if (finger.way === '') {
    if (Math.hypot(right, down) < 8) return
    finger.pans = program?._web_pans(finger.at.x, finger.at.y, down)
    finger.way = finger.pans || Math.abs(down) > Math.abs(right) ? 'scrolls' : 'slides'
    if (finger.way === 'slides') press(finger.start)
  }
  if (finger.way === 'slides') return pointer(event, true)
  if (finger.pans) {
    program._web_pan(at(event).y - finger.at.y)
    finger.at = at(event)
    return
  }
  if (isEmbedded()) return
  events.push({ ...at(event), down: false })  // what is below the finger scrolls
  program?._web_wheel((event.clientY - finger.y) / 75)  // of 5 lines, as Dear ImGui has it
  finger.y = event.clientY
}

canvas.addEventListener('pointerdown', (event) => {
  if (document.activeElement !== keyboard) canvas.focus({ preventScroll: true })
  canvas.setPointerCapture(event.pointerId)
  finger = event.pointerType === 'touch' ? { start: event, way: '', at: at(event), y: event.clientY } : null
  if (finger === null) press(event)
})
canvas.addEventListener('pointermove', (event) => finger === null ? pointer(event, event.buttons !== 0) : follow(event))
canvas.addEventListener('pointerup', (event) => {
  if (finger?.way === '') {
    press(finger.start)
    openKeyboard(event)
  }
  if (finger?.way === 'scrolls') events.push({ ...nowhere, down: false })
  else pointer(event, false)
  finger = null
})
canvas.addEventListener('pointercancel', () => {
  if (finger?.way !== '') events.push({ ...nowhere, down: finger?.way !== 'scrolls' }, { ...nowhere, down: false })  // no click: it ends elsewhere
  finger = null
})
canvas.addEventListener('touchmove', (event) => finger?.pans && event.cancelable && event.preventDefault(), { passive: false })
canvas.addEventListener('pointerleave', () => events.push({ x: -1, y: -1, down: false }))
canvas.addEventListener('wheel', (event) => {
  if (isEmbedded() && document.activeElement !== canvas) return  // the text around it scrolls
  event.preventDefault()
  program?._web_wheel(-event.deltaY / (event.deltaMode === 0 ? 100 : 3))
}, { passive: false })

/** A phone shows its keyboard if an element for text gets the focus while a touch is handled: so the frames that press a field come at once. */
function openKeyboard({ clientX, clientY }) {
  wake()
  while (program && events.length > 0) draw(before)
  if (!program || !draw(before) || !program._web_types()) return  // one more: Dear ImGui says in the next frame what it wants
  keyboard.value = written = ' '
  Object.assign(keyboard.style, { left: `${clientX}px`, top: `${clientY}px` })  // where the browser scrolls to
  keyboard.blur()
  keyboard.focus({ preventScroll: true })  // shown again where it was put away
}
canvas.addEventListener('mousedown', (event) => document.activeElement === keyboard && event.preventDefault())  // of the same touch

/** A phone's keyboard mends words that it has written before. What it changed is deleted and typed again. */
let written = ' '
keyboard.addEventListener('input', () => {
  const old = [...written], now = [...keyboard.value]
  const same = [...old, 0].findIndex((letter, i) => letter !== now[i])
  for (let i = same; i < old.length; ++i) for (const down of [1, 0]) sendKey('Backspace', down)
  for (const letter of now.slice(same)) program._web_letter(letter.codePointAt(0))
  if (now.length === 0) keyboard.value = ' '  // so that there is something to delete again
  written = keyboard.value
})

const sendKey = (name, down, control, shift) =>
  program.ccall('web_key', 'number', ['string', 'number', 'number', 'number'], [name, down, control ? 1 : 0, shift ? 1 : 0])
function key(event, down) {
  if (!program) return
  const control = event.ctrlKey || event.metaKey
  const isText = [...event.key].length === 1 && !control
  if (event.target === keyboard && (isText || event.key === 'Backspace')) return  // 'input' tells it
  const keepsTab = sendKey(event.key, down, control, event.shiftKey)
  if (down && isText) program._web_letter(event.key.codePointAt(0))
  // Tab leaves the page, but for a field that it completes, and for the next control.
  if (isText || (keepsTab && event.key === 'Tab') || /^(Arrow|Home|End|Backspace)/.test(event.key) || (control && /^[azyc]$/.test(event.key))) event.preventDefault()
}
for (const element of [canvas, keyboard]) {
  for (const [name, down] of [['keydown', 1], ['keyup', 0]]) element.addEventListener(name, (event) => key(event, down))
}
for (const name of ['pointerdown', 'pointerup', 'pointermove', 'pointerleave', 'wheel', 'keydown', 'keyup']) canvas.addEventListener(name, wake)
canvas.addEventListener('webglcontextlost', () => tell('The browser took the graphics away from this page. Reload it to start over.'))

let isDown = false
function takeEvents() {
  const change = events.findIndex(({ down }) => down !== isDown)
  const last = events.splice(0, change < 0 ? events.length : Math.max(change, 1)).at(-1)
  if (!last) return
  isDown = last.down
  program._web_mouse(last.x, last.y, isDown ? 1 : 0)
}

// ---- frames

let before = 0, livelyUntil = 0
/** After input a tooltip may open, a button light up. */
function wake() { livelyUntil = performance.now() + 1000 }

function frame(now) {
  if (events.length > 0) wake()  // on a busy machine they wait for frames
  if (document.activeElement === keyboard && !program._web_types()) canvas.focus({ preventScroll: true })
  if (draw(now)) requestAnimationFrame(frame)
}

/** Draws a frame, if something may have changed. False after an error of the program. */
function draw(now) {
  const sharp = window.devicePixelRatio || 1
  const width = Math.max(1, Math.round(canvas.clientWidth * sharp))
  const height = Math.max(1, Math.round(canvas.clientHeight * sharp))
  const isSame = canvas.width === width && canvas.height === height
  if (isSame && !copying && now > livelyUntil && !program._web_busy()) {  // nothing moves
    before = now
    return true
  }
  if (!isSame) Object.assign(canvas, { width, height })
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
    tell('The visualizer has stopped because of an error of its own. Reload the page to start over.')
    return false
  }
  before = now
  if (!document.body.dataset.ready) document.body.dataset.ready = performance.now().toFixed(0)
  return true
}

async function start() {
  if (!document.createElement('canvas').getContext('webgl2')) throw new Error('this browser has no WebGL 2; graphics acceleration may be off in its settings')
  progress.max = packs.visualizer + packs.model
  const arrived = (bytes) => { progress.value += bytes }
  const [files, model] = await Promise.all([readPack('visualizer', arrived), readPack('model', arrived)])
  const script = document.createElement('script')
  script.src = scriptOf(files, 'visualizer')
  await new Promise((resolve, reject) => {
    script.onload = resolve
    script.onerror = () => reject(new Error('its program cannot be read'))
    document.head.append(script)
  })
  program = await createVisualizer({ wasmBinary: files.get('visualizer.wasm'), canvas, share, copyPicture, pageOpened, themeShown })
  writeFiles(program.FS, files)
  writeFiles(program.FS, model)
  program._web_start(matchMedia('(prefers-reduced-motion: reduce)').matches ? 0 : 1)
  openWhatTheAddressSays()
  addEventListener('hashchange', openWhatTheAddressSays)
  lightBrowser.addEventListener('change', () => { program._web_theme(isLight() ? 1 : 0), wake() })
  tell('')
  if (!isEmbedded()) canvas.focus({ focusVisible: false })
  requestAnimationFrame(frame)
}

/** For tests: what is where, and how the page is. */
window.visualizer = {
  controls: () => JSON.parse(program.UTF8ToString(program._web_controls())),
  state: () => JSON.parse(program.UTF8ToString(program._web_state())),
  scenarios: () => JSON.parse(program.UTF8ToString(program._web_scenarios())),
  encode,
}

start().catch((error) => {
  console.error(error)
  tell(`The visualizer cannot begin: ${error.message ?? 'its program stopped'}.`)
})
