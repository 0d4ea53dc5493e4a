/** What the bundler writes in the place of JSX: shorter than with the runtime that TypeScript knows. */
export { Fragment, h } from 'preact';
