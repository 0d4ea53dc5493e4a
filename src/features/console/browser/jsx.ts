/** The bundler writes this for JSX; it is shorter than the runtime that TypeScript knows. Elements
 * of lists have no keys: none keeps a state. */
export { Fragment, h } from 'preact';
