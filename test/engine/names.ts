/**
 * The words of the sample warehouse. They are chosen to hurt: several scripts, accents, an emoji (two UTF-16
 * units), and every character that XML, SQL or MDX gives a meaning to.
 */

/** Countries, their regions and the cities of each. `weight` 0 has no sales at all. */
export const GEOGRAPHY: readonly {
  readonly country: string;
  readonly weight: number;
  readonly regions: Readonly<Record<string, readonly string[]>>;
}[] = [
  {
    country: 'Ελλάδα',
    weight: 9,
    regions: {
      Αττική: ['Αθήνα', 'Πειραιάς', 'Μαρούσι'],
      'Μακεδονία & Θράκη': ['Θεσσαλονίκη', 'Καβάλα', 'Ξάνθη'],
      Κρήτη: ['Ηράκλειο', 'Χανιά', 'Ρέθυμνο'],
    },
  },
  {
    country: 'France',
    weight: 12,
    regions: {
      'Île-de-France': ['Paris', 'Évry', 'Créteil'],
      "Provence-Alpes-Côte d'Azur": ['Marseille', 'Nice', 'Gap'],
      Occitanie: ['Toulouse', 'Nîmes', 'Sète'],
    },
  },
  {
    country: '中国',
    weight: 20,
    regions: { 华东: ['上海', '杭州', '南京'], 华南: ['广州', '深圳'], 西南: ['成都', '重庆'] },
  },
  {
    country: 'Österreich',
    weight: 5,
    regions: {
      Wien: ['Wien'],
      Kärnten: ['Klagenfurt', 'Villach'],
      Tirol: ['Innsbruck', 'Kufstein'],
    },
  },
  {
    country: 'Türkiye',
    weight: 8,
    regions: { Ege: ['İzmir', 'Muğla'], Marmara: ['İstanbul', 'Bursa', 'Kırklareli'] },
  },
  {
    country: 'United States',
    weight: 16,
    regions: {
      Northeast: ['New York', 'Boston', 'Portland'],
      'South [Gulf]': ['Houston', 'New Orleans', 'Mobile'],
      'West & Pacific': ['Seattle', 'Portland', 'San José'],
    },
  },
  {
    country: 'Ísland',
    weight: 1,
    regions: { Suðurland: ['Selfoss', 'Höfn'], Höfuðborgarsvæðið: ['Reykjavík'] },
  },
  { country: 'Antarctica', weight: 0, regions: { 'Ross <Sea>': ['McMurdo', 'Scott "Base"'] } },
];

/** What each family sells. A category with `sold: false` has no sales at all. */
export const PRODUCTS: readonly {
  readonly family: string;
  readonly categories: Readonly<
    Record<string, { readonly items: readonly string[]; readonly sold?: false }>
  >;
}[] = [
  {
    family: 'Food',
    categories: {
      Bread: { items: ['Baguette', 'Rye loaf', 'Κουλούρι', 'Pretzel'] },
      'Cheese & Dairy': { items: ['Feta', 'Comté <aged 18 months>', 'Yoghurt', 'Butter "salted"'] },
      'Fruit [fresh]': { items: ['Apples', 'Cherries', 'Açaí', 'Figs'] },
      豆制品: { items: ['豆腐', '豆浆', '腐竹', '味噌'] },
      Épicerie: { items: ['Crème brûlée', 'Olives 🫒', 'Salt & pepper', "Baker's flour"] },
    },
  },
  {
    family: 'Drink',
    categories: {
      Coffee: { items: ['Espresso', 'Ελληνικός καφές', 'Filter', 'Decaf'] },
      'Tea 🍵': { items: ['龙井', 'Rooibos', 'Çay', 'Mint'] },
      Wine: { items: ['Ξινόμαυρο', 'Grüner Veltliner', 'Champagne', 'Port'] },
      Water: { items: ['Still', 'Sparkling', 'Tonic', 'Soda'] },
      Juice: { items: ['Apple', 'Orange', 'Tomato', 'Pear'] },
    },
  },
  {
    family: 'Home & Garden',
    categories: {
      Tools: { items: ['Hammer', 'Saw 12"', 'Spade', 'Pliers'] },
      Textiles: { items: ['Blanket', 'Towel', 'Curtain', 'Rug'] },
      'Plants 🌿': { items: ['Basil', 'Olive tree', 'Cactus', 'Fern'] },
      Light: { items: ['Lamp', 'Candle', 'Lantern', 'LED [E27]'] },
      Discontinued: { items: ['Mangle', 'Gas mantle'], sold: false },
    },
  },
  {
    family: 'Paper <Print>',
    categories: {
      Books: { items: ['Ποίηση', 'Novel', '诗经', 'Cookbook'] },
      Notebooks: { items: ['Ruled', 'Squared', 'Plain', 'Dotted'] },
      Maps: { items: ['City', 'Hiking', 'Sea', 'World'] },
      Cards: { items: ['Birthday', 'Thank you!', 'Postcard', 'Namenstag'] },
      Pens: { items: ['Fountain pen', 'Pencil 2B', 'Marker', 'Ink'] },
    },
  },
];

/** Each item is made by each of these. */
export const BRANDS: readonly string[] = [
  'Aurora',
  'Müller & Söhne',
  'Φάρος',
  "O'Malley's",
  '工坊',
];

export const SEGMENTS: readonly string[] = [
  'Household',
  'Trade',
  'Hotel & Café',
  'Public [sector]',
];

// prettier-ignore
export const FIRST_NAMES: readonly string[] = [
  'Αλέξανδρος', 'Μαρία', 'Ελένη', 'Γιώργος', 'Δήμητρα', 'Νίκος', 'Zoë', 'René', 'Amélie', 'François',
  'Chloé', 'Élodie', 'Luc', 'Inès', '伟', '芳', '娜', '敏', '静', '磊', 'Jürgen', 'Käthe', 'Sören', 'Anja',
  'Lukas', 'Greta', 'Ayşe', 'Çağlar', 'Ömer', 'Elif', 'İpek', 'Mert', 'Grace', 'Ada', 'Barbara', 'Edsger',
  'John', 'Mary', 'Radia', 'Ken', 'Björk', 'Þór', 'Guðrún', 'Ólafur', 'Siân', 'Nuala', 'Seán', 'Zażółć',
  'Łukasz', 'Dvořák', 'Ngọc', 'Nguyên', 'Σοφία', 'Anaïs', 'Noël', 'Ruth', 'Iris', 'Otto', 'Hana', 'Yuki',
];

// prettier-ignore
export const LAST_NAMES: readonly string[] = [
  'Παπαδόπουλος', 'Καζαντζάκη', 'Οικονόμου', 'Βλάχος', "O'Brien", "D'Arcy", 'Smith & Sons', 'de la Cruz',
  'Lefèvre', 'Gauß', 'Hölderlin', 'Müller', 'Weiß', 'Strauß', '王', '李', '张', '刘', '陈', '杨', 'Yılmaz',
  'Şahin', 'Öztürk', 'Kılıç', 'Hopper', 'Lovelace', 'Liskov', 'Dijkstra', 'Backus', 'Perlman', 'Thompson',
  'Guðmundsdóttir', 'Jónsson', 'Ní Bhraonáin', 'Kowalski', 'Wójcik', 'Čapek', 'Novák', 'Trần', 'Phạm',
  'Curie', 'Noether', 'Germain', 'Hypatia', 'Euler', 'Bernoulli', 'Fermat', 'Galois', 'Ramanujan', 'Erdős',
  'Kovalevskaya', 'Cantor', 'Hilbert', 'Gödel', 'Turing', 'Church', 'Curry [Jr]', 'Kleene', 'Post', 'Tarski',
];
