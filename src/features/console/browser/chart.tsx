import { Component, createRef } from 'preact';
import type { AlignedData, Options, Series } from 'uplot';
import type { Overview } from './json.ts';
import { count, plural } from '../../../common/words.ts';
import { moment } from './parts.tsx';

const HEIGHT = 180;

type Given = Pick<Overview, 'hour' | 'minutes' | 'purges'>;

/** uPlot is a global here (src/features/console/build.ts). A table beside it says the same. */
export class Chart extends Component<Given> {
  readonly place = createRef<HTMLDivElement>();
  resized: ResizeObserver | undefined;
  plot: uPlot | undefined;

  override componentDidMount(): void {
    const { current } = this.place;
    if (current === null) return;
    this.plot = drawn(current, () => this.props);
    this.resized = new ResizeObserver(() =>
      this.plot?.setSize({ width: current.clientWidth, height: HEIGHT }),
    );
    this.resized.observe(current);
  }

  override componentDidUpdate(): void {
    this.plot?.setData(stacked(this.props.minutes));
  }

  override componentWillUnmount(): void {
    this.resized?.disconnect();
    this.plot?.destroy();
  }

  override render({ hour, purges: [last, ...purges] }: Given) {
    const told = [
      ['hit', `${count(hour.hits)} hits`],
      ['miss', `${count(hour.misses)} misses`],
      ['bypass', `${count(hour.bypasses)} past the cache`],
      ['purge', last && `${plural(purges.length + 1, 'purge')}, the last at ${moment(last.at)}`],
    ].filter(([, text]) => text);
    const label = told.map(([, text]) => text).join(', ');
    return (
      <figure>
        <div class="chart" ref={this.place} role="img" aria-label={label} />
        <figcaption>
          {told.map(([kind, text]) => (
            <span class={kind}>{text}</span>
          ))}
        </figcaption>
      </figure>
    );
  }
}

/** Bars are drawn over one another, the highest first. */
function stacked(minutes: Overview['minutes']): AlignedData {
  return [
    minutes.map(({ at }) => Date.parse(at) / 1000),
    minutes.map(({ hits, misses, bypasses }) => hits + misses + bypasses),
    minutes.map(({ hits, misses }) => hits + misses),
    minutes.map(({ hits }) => hits),
  ];
}

function drawn(element: HTMLElement, given: () => Given): uPlot {
  // Asked at each drawing, since a person may change between light and dark.
  const colour = (name: string) => () =>
    getComputedStyle(element).getPropertyValue(`--${name}`).trim();
  const bars = uPlot.paths.bars?.({ size: [0.8, 40] });
  const series = (name: string): Series => ({
    fill: colour(name),
    width: 0,
    points: { show: false },
    ...(bars && { paths: bars }),
  });
  const axis = {
    stroke: colour('quiet'),
    grid: { stroke: colour('line'), width: 1 },
    ticks: { show: false },
  };
  const lines = (plot: uPlot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = colour('purge')();
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const { at } of given().purges) {
      const x = plot.valToPos(Date.parse(at) / 1000, 'x', true);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  };
  const options: Options = {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: { y: { range: (_plot, _least, most) => [0, Math.max(5, most * 1.1)] } },
    axes: [
      {
        ...axis,
        size: 28,
        values: (_plot, times) =>
          times.map((time) => new Date(time * 1000).toTimeString().slice(0, 5)),
      },
      { ...axis, size: 44 },
    ],
    series: [{}, series('bypass'), series('miss'), series('hit')],
    hooks: { draw: [lines] },
  };
  return new uPlot(options, stacked(given().minutes), element);
}
