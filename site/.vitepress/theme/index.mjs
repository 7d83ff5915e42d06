// VitePress's own theme, without its web fonts, and what a course needs besides.
import { h } from 'vue'
import DefaultTheme from 'vitepress/theme-without-fonts'
import ChapterHead from './ChapterHead.vue'
import ChapterMarks from './ChapterMarks.vue'
import Film from './Film.vue'
import FrontPage from './FrontPage.vue'
import GlossaryFind from './GlossaryFind.vue'
import OwnAnswer from './OwnAnswer.vue'
import Resolution from './Resolution.vue'
import SidebarPlace from './SidebarPlace.vue'
import StepMark from './StepMark.vue'
import TermTip from './TermTip.vue'
import VisualizerPage from './VisualizerPage.vue'
import './style.css'

export default {
  extends: DefaultTheme,
  Layout: () =>
    h(DefaultTheme.Layout, null, {
      'doc-before': () => h(ChapterHead),
      'doc-footer-before': () => h(ChapterMarks),
      'sidebar-nav-after': () => h(SidebarPlace),
      'layout-bottom': () => h(TermTip),
    }),
  enhanceApp({ app }) {
    for (const [name, component] of Object.entries({ Film, FrontPage, GlossaryFind, OwnAnswer, Resolution, StepMark, VisualizerPage })) {
      app.component(name, component)
    }
  },
}
