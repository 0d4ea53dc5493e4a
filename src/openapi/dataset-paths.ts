import { API_OTHER_METHODS, changing, enveloped, json, reading } from './api-answers.ts';
import type { Operation, Parameter, Paths, RequestBody, Schema } from './openapi-types.ts';

const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });
const identifier = (description: string): Schema => ({
  description,
  type: 'string',
  minLength: 1,
  maxLength: 255,
  // No halves of surrogate pairs.
  pattern: '^\\P{Cs}*$',
});

const DOCUMENT = {
  project: 'learn',
  dataset_name: 'Sales',
  type: 'MDX',
  dim_table_models: [],
};

export const DATASET_SCHEMAS: Readonly<Record<string, Schema>> = {
  Dataset: {
    description:
      'One JSON object in UTF-8 (RFC 8259) that says itself where it belongs. Project and name together identify ' +
      'it. Everything else is kept as it is: what is exported are the bytes that were imported.',
    type: 'object',
    required: ['project', 'dataset_name', 'type'],
    properties: {
      project: identifier('The project that it belongs to; compared exactly.'),
      dataset_name: identifier('Its name within the project; compared exactly.'),
      type: identifier('Its type, such as `MDX`; letter case does not count.'),
    },
    additionalProperties: true,
  },
  DatasetId: {
    description: 'Given in sequence and never given again.',
    type: 'integer',
    minimum: 1,
  },
  DatasetList: {
    type: 'object',
    required: ['project', 'semantic_datasets'],
    properties: {
      project: { type: 'string' },
      semantic_datasets: {
        description: 'In the order in which they were imported.',
        type: 'array',
        items: {
          type: 'object',
          required: ['dataset_id', 'dataset_name', 'type', 'last_modified'],
          properties: {
            dataset_id: ref('DatasetId'),
            dataset_name: { type: 'string' },
            type: { type: 'string' },
            last_modified: {
              description: 'Seconds since 1970 (UTC) of the last import or update.',
              type: 'integer',
              minimum: 0,
            },
          },
        },
      },
    },
  },
};

const project: Parameter = {
  name: 'project',
  in: 'path',
  description: 'The name of the project, percent-encoded; compared exactly.',
  required: true,
  schema: { type: 'string', minLength: 1 },
  example: 'learn',
};

const queryText = (name: string, description: string, example: string): Parameter => ({
  name,
  in: 'query',
  description,
  required: true,
  schema: { type: 'string', minLength: 1 },
  example,
});

const documentBody: RequestBody = {
  description: 'The document, as export answers it; at most `limits.dataset` long.',
  required: true,
  content: { 'application/json': { schema: ref('Dataset'), example: DOCUMENT } },
};

const datasetIdAnswer = enveloped(
  'The id of the dataset.',
  { type: 'object', required: ['dataset_id'], properties: { dataset_id: ref('DatasetId') } },
  { dataset_id: 1 },
);

const exportDataset: Operation = {
  operationId: 'exportDataset',
  tags: ['Datasets'],
  summary: 'Export a dataset',
  description: 'The document of one dataset, without envelope, byte for byte as it was imported.',
  parameters: [
    queryText('project', 'The project; compared exactly.', 'learn'),
    queryText('datasetType', 'The type; letter case does not count.', 'mdx'),
    queryText('datasetName', 'The name; compared exactly.', 'Sales'),
  ],
  responses: reading({
    success: json('The document.', { schema: ref('Dataset'), example: DOCUMENT }),
    refusals: ['no-such-dataset', 'overloaded'],
    wrongInput: 'project: must be given exactly once; datasetName: must not be empty.',
  }),
};

const importDataset: Operation = {
  operationId: 'importDataset',
  tags: ['Datasets'],
  summary: 'Import a dataset',
  description:
    'Adds a dataset; nothing is ever overwritten. Clears the query cache of its project before it answers, also ' +
    'when there was one of this name already. For administrators.',
  parameters: [
    {
      name: 'createType',
      in: 'query',
      description: 'Always `import`.',
      required: true,
      schema: { const: 'import' },
      example: 'import',
    },
  ],
  requestBody: documentBody,
  responses: changing({
    success: datasetIdAnswer,
    refusals: ['dataset-exists', 'overloaded'],
    hasBody: true,
    purges: true,
    wrongInput: 'project: is missing; type: must be a string.',
  }),
};

const updateDataset: Operation = {
  operationId: 'updateDataset',
  tags: ['Datasets'],
  summary: 'Update a dataset',
  description:
    'Replaces the document and the type of the dataset that has the same project and name; the id stays. Clears ' +
    'the query cache of its project before it answers. For administrators.',
  requestBody: documentBody,
  responses: changing({
    success: datasetIdAnswer,
    refusals: ['no-such-dataset', 'overloaded'],
    hasBody: true,
    purges: true,
    wrongInput: 'dataset_name: must have 1 to 255 characters.',
  }),
};

const listDatasets: Operation = {
  operationId: 'listDatasets',
  tags: ['Datasets'],
  summary: 'List the datasets of a project',
  description: 'All datasets of a project, whatever their type; an unknown project has none.',
  parameters: [project],
  responses: reading({
    success: json('The datasets, without envelope.', {
      schema: ref('DatasetList'),
      example: {
        project: 'learn',
        semantic_datasets: [
          { dataset_id: 1, dataset_name: 'Sales', type: 'MDX', last_modified: 1_767_225_600 },
        ],
      },
    }),
    wrongInput: 'The path is not well-formed: %XX must be bytes of UTF-8.',
  }),
};

/** The operations of the interface document §4.2. */
export const DATASET_PATHS: Paths = {
  '/api/dataset': {
    get: exportDataset,
    post: importDataset,
    put: updateDataset,
    'x-other-methods': API_OTHER_METHODS,
  },
  '/api/datasets/MDX/{project}': { get: listDatasets, 'x-other-methods': API_OTHER_METHODS },
};
