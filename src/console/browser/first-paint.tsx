/** At the server: the page as it is sent first. */
import type { VNode } from 'preact';
import { render } from 'preact-render-to-string';
import { App, Frame, pageAt, STATUS } from './app.tsx';
import type { Assets, FirstPaint } from '../pages.ts';

export const firstPaint: FirstPaint = {
  find(path, search, rights) {
    const page = pageAt(path, rights);
    if (page === undefined) return undefined;
    const query = new URLSearchParams(search);
    return {
      isAllowed: page.isFor(rights),
      sources: { ...STATUS, ...page.sources(query) },
      show(sources, assets) {
        const app = <App {...{ page, rights, sources, query }} refresh={() => {}} />;
        return whole(page.title, app, assets);
      },
    };
  },

  showProblem(text, rights, assets) {
    const title = 'This is not shown';
    const frame = (
      <Frame rights={rights}>
        <h1>{title}</h1>
        <p class="notice">{text}</p>
      </Frame>
    );
    return whole(title, frame, { ...assets, script: '' });
  },

  showLinks(links, assets) {
    const page = (
      <main>
        <h1>MDX gateway</h1>
        <p class="lead">A caching reverse proxy for OLAP engines that speak XMLA.</p>
        <ul>
          {links.map(({ path, text }) => (
            <li key={path}>
              <a href={path}>{path}</a> {text}
            </li>
          ))}
        </ul>
      </main>
    );
    return whole('Pages', page, { ...assets, script: '' });
  },
};

function whole(title: string, content: VNode, { script, style, icon }: Assets): string {
  const document = (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>{`${title} · MDX gateway`}</title>
        <link rel="icon" href={icon} type="image/svg+xml" />
        <link rel="stylesheet" href={style} />
        {script !== '' && <script type="module" src={script} />}
      </head>
      <body>
        <p id="connection" role="status" class="finding problem" hidden />
        <div id="page">{content}</div>
        <noscript>
          <p class="notice">
            Filters, acts and the chart need JavaScript. On the command line:{' '}
            <code>mdx-gateway help</code>.
          </p>
        </noscript>
      </body>
    </html>
  );
  return `<!DOCTYPE html>\n${render(document)}\n`;
}
