// ./course site: makes the site, and serves or tests it. tools/course_runs.py explains the options.
import fs from 'node:fs'
import path from 'node:path'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { parseArgs } from 'node:util'
import { fileURLToPath } from 'node:url'
import { serve } from './server.mjs'

const here = path.dirname(fileURLToPath(import.meta.url))
const root = path.dirname(here)
const builds = process.env.COURSE_BUILD ?? path.join(root, 'build')

function fail(message) {
  process.stderr.write(`error: ${message}\n`)
  process.exit(2)
}

function options() {
  const string = { type: 'string' }
  const boolean = { type: 'boolean' }
  try {
    const { values } = parseArgs({
      options: { out: string, web: string, base: string, port: string, serve: boolean, test: boolean },
    })
    return values
  } catch (error) {
    fail(error.message)
  }
}

/** A folder that is emptied has to be one that this script filled. */
function checkOut(out) {
  if (!fs.existsSync(out) || fs.readdirSync(out).length === 0 || fs.existsSync(path.join(out, 'hashmap.json'))) return
  fail(`${out} has other files in it; name a folder that is empty, or that an earlier site is in`)
}

/** VitePress notices Ctrl-C when it has time, so it has a process of its own, which a signal ends at once. */
async function build() {
  const vitepress = spawn(process.execPath, [path.join(here, 'build.mjs')], { stdio: 'inherit' })
  const end = (signal) => {
    vitepress.kill('SIGKILL')
    if (process.stderr.isTTY) process.stderr.write('\x1b[?25h\n')  // the cursor, which VitePress hides
    process.exit(signal === 'SIGINT' ? 130 : 143)
  }
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, end)
  const [code] = await once(vitepress, 'exit')
  for (const signal of ['SIGINT', 'SIGTERM']) process.off(signal, end)
  if (code !== 0) process.exit(code ?? 1)
}

async function make({ out, web, base }) {
  checkOut(out)
  // It grows beside its place and goes there when it is whole, so an interrupted one leaves nothing in the way.
  const whole = out
  out = `${whole}.part`
  fs.rmSync(out, { recursive: true, force: true })
  Object.assign(process.env, { SITE_OUT: out, SITE_BASE: base, SITE_VISUALIZER: web ? '1' : '0' })
  await build()
  fs.cpSync(path.join(root, 'docs/figures'), path.join(out, 'docs/figures'), {
    recursive: true,
    filter: (file) => path.basename(file) !== 'data',
  })
  // What ends in .pack.js is for pages that are opened as files; a site has a server.
  if (web) fs.cpSync(web, path.join(out, 'viz'), { recursive: true, filter: (file) => !file.endsWith('.pack.js') })
  if (web) fs.appendFileSync(path.join(out, 'viz/contents.js'), 'inSite = true\n')
  fs.rmSync(whole, { recursive: true, force: true })
  fs.renameSync(out, whole)
  process.stderr.write(`The site is in ${whole}${web ? '' : ', without the visualizer: ./course web makes it'}\n`)
}

const given = options()
const base = given.base ?? '/'
if (!/^\/(.*\/)?$/.test(base)) fail(`--base begins and ends with a slash, ${base} does not`)
const out = path.resolve(given.out ?? path.join(builds, 'site'))
let web = given.web && path.resolve(given.web)
if (web && !fs.existsSync(path.join(web, 'index.html'))) fail(`there is no index.html in ${web}`)
if (!web && fs.existsSync(path.join(builds, 'web/index.html'))) web = path.join(builds, 'web')

await make({ out, web, base })
if (given.test) {
  const tests = fs.readdirSync(path.join(here, 'test')).filter((name) => name.endsWith('.test.mjs'))
  const env = { ...process.env, SITE_OUT: out, SITE_BASE: base }
  const { status } = spawnSync(process.execPath, ['--test', '--test-reporter=spec', ...tests.map((name) => path.join(here, 'test', name))], { env, stdio: 'inherit' })
  if (status) process.exit(status)
}
if (given.serve) {
  const server = await serve(out, { base, port: Number(given.port ?? 8000) }).catch((error) => fail(error.message))
  process.stderr.write(`http://localhost:${server.address().port}${base}   (Ctrl-C ends it)\n`)
}
