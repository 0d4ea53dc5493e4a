/**
 * The sample warehouse: a star schema with two fact tables, made from a seed, so that every machine has
 * exactly the same rows and an answer recorded on one is right on the other.
 */
import { BRANDS, FIRST_NAMES, GEOGRAPHY, LAST_NAMES, PRODUCTS, SEGMENTS } from './names.ts';

export type SqlValue = string | number;

export interface WarehouseTable {
  readonly name: string;
  /** Column name and its SQL type, in order. */
  readonly columns: readonly (readonly [name: string, type: string])[];
  readonly primaryKey: string | undefined;
  /** One index for each of these columns: without them HSQLDB joins by reading all facts for every member. */
  readonly indexes: readonly string[];
  readonly rows: readonly (readonly SqlValue[])[];
}

const SALES_ROWS = 150_000;
const CUSTOMERS = 3_000;
const FIRST_YEAR = 2023;
/** The years that have sales, with their share; one more year exists without any. */
const YEAR_WEIGHTS = [3, 4, 5];
const YEARS_WITHOUT_SALES = 1;

/** mulberry32: a small generator with a 32 bit state. Gives numbers in [0, 1). */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000;
  };
}

function at<T>(list: readonly T[], index: number): T {
  const found = list[index];
  if (found === undefined) throw new RangeError(`no element ${index} in a list of ${list.length}`);
  return found;
}

const pick = <T>(random: () => number, list: readonly T[]): T =>
  at(list, Math.floor(random() * list.length));

const DAY_MS = 86_400_000;
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** One row for each day: id, year, quarter, month number, month name, day of the month, date. */
function dayRows(): (readonly [number, number, string, number, string, number, string])[] {
  const end = Date.UTC(FIRST_YEAR + YEAR_WEIGHTS.length + YEARS_WITHOUT_SALES, 0, 1);
  const start = Date.UTC(FIRST_YEAR, 0, 1);
  return Array.from({ length: (end - start) / DAY_MS }, (_, index) => {
    const date = new Date(start + index * DAY_MS);
    const month = date.getUTCMonth();
    return [
      index + 1,
      date.getUTCFullYear(),
      `Q${Math.floor(month / 3) + 1}`,
      month + 1,
      at(MONTHS, month),
      date.getUTCDate(),
      date.toISOString().slice(0, 10),
    ] as const;
  });
}

function cityRows(random: () => number) {
  return GEOGRAPHY.flatMap(({ country, weight, regions }) =>
    Object.entries(regions).flatMap(([region, cities]) =>
      cities.map((city) => ({ country, weight, region, city })),
    ),
  ).map(({ country, weight, region, city }, index) => ({
    id: index + 1,
    weight,
    row: [index + 1, country, region, city, 10_000 + Math.floor(random() * 900_000)] as const,
  }));
}

/**
 * Prices are whole quarters: doubles add them without rounding, so a sum does not depend on the order in
 * which the engine adds, and two answers to one question are the same bytes.
 */
function productRows(random: () => number) {
  return PRODUCTS.flatMap(({ family, categories }) =>
    Object.entries(categories).flatMap(([category, { items, sold }]) =>
      items.flatMap((item) =>
        BRANDS.map((brand) => ({
          family,
          category,
          name: `${brand} ${item}`,
          sold: sold !== false,
        })),
      ),
    ),
  ).map(({ family, category, name, sold }, index) => {
    const price = (4 + Math.floor(random() * 200)) / 4;
    return {
      id: index + 1,
      sold,
      price,
      cost: Math.floor(price * 2.4) / 4,
      row: [index + 1, family, category, name, at(BRANDS, index % BRANDS.length), price] as const,
    };
  });
}

function customerRows(random: () => number) {
  return Array.from({ length: CUSTOMERS }, (_, index) => {
    const first = at(FIRST_NAMES, index % FIRST_NAMES.length);
    const turn = Math.floor(index / FIRST_NAMES.length);
    const last = at(LAST_NAMES, (index * 7 + turn) % LAST_NAMES.length);
    const since = 2010 + Math.floor(random() * 13);
    return [
      index + 1,
      pick(random, SEGMENTS),
      `${first} ${last}`,
      random() < 0.5 ? 'F' : 'M',
      since,
    ] as const;
  });
}

/** Every item as often as its weight says. */
const weighted = <T>(items: readonly T[], weight: (item: T, index: number) => number): T[] =>
  items.flatMap((item, index) => Array.from({ length: weight(item, index) }, () => item));

/** The tables of the warehouse; the same on every call and every machine. */
export function createWarehouse(): WarehouseTable[] {
  const random = createRandom(20_230_101);
  const days = dayRows();
  const cities = cityRows(random);
  const products = productRows(random);
  const customers = customerRows(random);

  const soldProducts = products.filter(({ sold }) => sold);
  const citiesBySales = weighted(cities, ({ weight }) => weight);
  const daysOfYears = YEAR_WEIGHTS.map((_, index) =>
    days.filter(([, year]) => year === FIRST_YEAR + index),
  );
  const yearsBySales = weighted(daysOfYears, (_, index) => at(YEAR_WEIGHTS, index));

  const sales = Array.from({ length: SALES_ROWS }, () => {
    const day = pick(random, pick(random, yearsBySales));
    const city = pick(random, citiesBySales);
    // Squaring leans to the head of the list: some products sell well, others seldom.
    const product = at(soldProducts, Math.floor(random() ** 2 * soldProducts.length));
    const customer = pick(random, customers);
    const units = 1 + Math.floor(random() * 12);
    return [
      day[0],
      city.id,
      product.id,
      customer[0],
      units,
      units * product.price,
      units * product.cost,
    ];
  });

  const monthStarts = days.filter(
    ([, year, , , , dayOfMonth]) => dayOfMonth === 1 && year < FIRST_YEAR + YEAR_WEIGHTS.length,
  );
  const stock = monthStarts.flatMap((day) =>
    cities
      .filter(({ weight }) => weight > 0)
      .flatMap((city) =>
        Array.from({ length: 12 }, () => [
          day[0],
          city.id,
          pick(random, soldProducts).id,
          Math.floor(random() * 400),
          Math.floor(random() * 60),
        ]),
      ),
  );

  return [
    {
      name: 'calendar',
      columns: [
        ['day_id', 'INTEGER'],
        ['year', 'INTEGER'],
        ['quarter', 'VARCHAR(2)'],
        ['month', 'INTEGER'],
        ['month_name', 'VARCHAR(3)'],
        ['day', 'INTEGER'],
        ['date', 'VARCHAR(10)'],
      ],
      primaryKey: 'day_id',
      indexes: [],
      rows: days,
    },
    {
      name: 'city',
      columns: [
        ['city_id', 'INTEGER'],
        ['country', 'VARCHAR(60)'],
        ['region', 'VARCHAR(60)'],
        ['city', 'VARCHAR(60)'],
        ['population', 'INTEGER'],
      ],
      primaryKey: 'city_id',
      indexes: [],
      rows: cities.map(({ row }) => row),
    },
    {
      name: 'product',
      columns: [
        ['product_id', 'INTEGER'],
        ['family', 'VARCHAR(60)'],
        ['category', 'VARCHAR(60)'],
        ['product', 'VARCHAR(80)'],
        ['brand', 'VARCHAR(60)'],
        ['list_price', 'DECIMAL(12,2)'],
      ],
      primaryKey: 'product_id',
      indexes: [],
      rows: products.map(({ row }) => row),
    },
    {
      name: 'customer',
      columns: [
        ['customer_id', 'INTEGER'],
        ['segment', 'VARCHAR(60)'],
        ['customer', 'VARCHAR(80)'],
        ['gender', 'VARCHAR(1)'],
        ['since', 'INTEGER'],
      ],
      primaryKey: 'customer_id',
      indexes: [],
      rows: customers,
    },
    {
      name: 'sales',
      columns: [
        ['day_id', 'INTEGER'],
        ['city_id', 'INTEGER'],
        ['product_id', 'INTEGER'],
        ['customer_id', 'INTEGER'],
        ['units', 'INTEGER'],
        ['revenue', 'DECIMAL(12,2)'],
        ['cost', 'DECIMAL(12,2)'],
      ],
      primaryKey: undefined,
      indexes: ['day_id', 'city_id', 'product_id', 'customer_id'],
      rows: sales,
    },
    {
      name: 'stock',
      columns: [
        ['day_id', 'INTEGER'],
        ['city_id', 'INTEGER'],
        ['product_id', 'INTEGER'],
        ['on_hand', 'INTEGER'],
        ['on_order', 'INTEGER'],
      ],
      primaryKey: undefined,
      indexes: ['day_id', 'city_id', 'product_id'],
      rows: stock,
    },
  ];
}
