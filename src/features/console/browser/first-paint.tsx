import type { VNode } from 'preact';
import { render } from 'preact-render-to-string';
import { App, Frame, pageAt } from './app.tsx';
import { tellAll } from './page.ts';
import type { Assets, FirstPaint } from '../pages.ts';

export const firstPaint: FirstPaint = {
  find(path, search, rights) {
    const page = pageAt(path, rights);
    if (page === undefined) return undefined;
    const query = new URLSearchParams(search);
    return {
      isAllowed: page.isFor(rights),
      async show(tell, assets) {
        const sources = await tellAll({ status: [], ...page.sources(query) }, query, tell);
        const app = <App {...{ page, rights, sources, query }} refresh={() => {}} />;
        return whole(page.title, app, assets);
      },
    };
  },

  showProblem(text, rights, assets) {
    const title = 'This is not shown';
    const frame = (
      <Frame title={title} rights={rights}>
        <p class="notice">{text}</p>
      </Frame>
    );
    return whole(title, frame, { ...assets, script: '' });
  },

  showLinks(links, assets) {
    const page = (
      <main>
        <h1>MDX gateway</h1>
        <p>A caching reverse proxy for OLAP engines that speak XMLA.</p>
        <ul>
          {Object.entries(links).map(([path, text]) => (
            <li>
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
