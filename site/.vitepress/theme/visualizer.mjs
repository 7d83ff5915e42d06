// Where the visualizer is, if this copy of the site has it.
import { withBase } from 'vitepress'

export const built = __VISUALIZER__

/** The address of a page of it, in the colours of the site. */
export const addressOf = (page, isDark) => `${withBase('/viz/index.html')}#page=${page}&theme=${isDark ? 'dark' : 'light'}`
