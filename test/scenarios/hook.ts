import { expect } from '@jest/globals';
import { callDbtHook, SECRET } from '../support/hooks.ts';
import { scenario } from './vocabulary.ts';

scenario(
  'a load job tells a hook that it is done, and its projects are purged',
  { hooks: { dbt: { format: 'dbt', secret: SECRET, projects: ['Shop'] } } },
  async ({ engine, gateway, user }) => {
    const [shop, bank] = ['Shop', 'Bank'].map((project) => user('alice', { project }));
    await shop?.asks('Sales', 'miss stored: Sales of Monday');
    await bank?.asks('Sales', 'miss stored: Sales of Monday');
    engine.data = 'Tuesday';
    expect((await callDbtHook(gateway.url, 'dbt')).status).toBe(200);
    await shop?.asks('Sales', 'miss stored: Sales of Tuesday');
    await bank?.asks('Sales', 'hit: Sales of Monday');
  },
);
