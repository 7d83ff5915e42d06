// VitePress's own theme, without its web fonts, and what a course needs besides.
import { h } from 'vue'
import DefaultTheme from 'vitepress/theme-without-fonts'
import ChapterMarks from './ChapterMarks.vue'
import OwnAnswer from './OwnAnswer.vue'
import Progress from './Progress.vue'
import Resolution from './Resolution.vue'
import StepMark from './StepMark.vue'
import TermTip from './TermTip.vue'
import VisualizerPage from './VisualizerPage.vue'
import './style.css'

export default {
  extends: DefaultTheme,
  Layout: () =>
    h(DefaultTheme.Layout, null, {
      'doc-before': () => h(Progress),
      'doc-footer-before': () => h(ChapterMarks),
      'layout-bottom': () => h(TermTip),
    }),
  enhanceApp({ app }) {
    for (const [name, component] of Object.entries({ OwnAnswer, Resolution, StepMark, VisualizerPage })) {
      app.component(name, component)
    }
  },
}
