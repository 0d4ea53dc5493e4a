/**
 * What the bundler writes in the place of JSX: shorter than with the runtime that TypeScript knows. Elements of lists have no
 * keys: none of them keeps a state.
 */
export { Fragment, h } from 'preact';
