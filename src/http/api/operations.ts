/** The operations of the interface document §4.1 and §4.2, in its order; paths below /api, in Express's words. */
export const API_OPERATIONS = [
  { name: 'createRole', method: 'POST', path: '/role', changes: 'roles' },
  { name: 'updateRole', method: 'PUT', path: '/role/:roleId', changes: 'roles' },
  { name: 'readRole', method: 'GET', path: '/role/:roleId', changes: undefined },
  { name: 'deleteRole', method: 'DELETE', path: '/role/:roleId', changes: 'roles' },
  { name: 'addUser', method: 'POST', path: '/role/user/visibility/:roleId', changes: 'roles' },
  { name: 'removeUser', method: 'DELETE', path: '/role/user/visibility/:roleId', changes: 'roles' },
  { name: 'listRoles', method: 'GET', path: '/roles', changes: undefined },
  { name: 'exportDataset', method: 'GET', path: '/dataset', changes: undefined },
  { name: 'importDataset', method: 'POST', path: '/dataset', changes: 'datasets' },
  { name: 'updateDataset', method: 'PUT', path: '/dataset', changes: 'datasets' },
  { name: 'listDatasets', method: 'GET', path: '/datasets/MDX/:project', changes: undefined },
] as const satisfies readonly {
  readonly name: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  /** What it changes; only administrators may change anything. */
  readonly changes: 'roles' | 'datasets' | undefined;
}[];

export type ApiOperation = (typeof API_OPERATIONS)[number];

/** The query parameters that the interface document names; other operations have none. */
export const QUERY_PARAMETERS: Partial<Readonly<Record<ApiOperation['name'], readonly string[]>>> =
  {
    listRoles: ['pageNum', 'pageSize', 'containsDesc', 'RoleName'],
    exportDataset: ['project', 'datasetType', 'datasetName'],
    importDataset: ['createType'],
  };
