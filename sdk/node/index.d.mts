import * as streamfleet from './index.js';

export * from './index.js';
export default streamfleet;
