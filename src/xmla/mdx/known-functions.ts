import { byWords, foldName } from '../names.ts';

/**
 * `function`: before `(`, not behind a dot. `method`: also behind a dot, as in
 * `[T].Members.Item(0)`; other names there belong to an assembly. `keyword`: no call, no brackets.
 */
export type Standing = 'function' | 'method' | 'keyword';

/**
 * Names that may stand before `(` when an answer depends on the data alone: functions of Mondrian
 * (MDSCHEMA_FUNCTIONS), and of the MDX reference of Analysis Services with its VBA functions.
 * Others may be user-defined, and read the clock. By topic: members, sets, numbers over sets and
 * cells, conversions, texts, numbers, given dates.
 */
const FUNCTIONS = `
  Ancestor Ancestors Ascendants Caption Children ClosingPeriod Cousin Current CurrentMember
  CurrentOrdinal DataMember DefaultMember Descendants Dimension FirstChild FirstSibling Hierarchy IsAncestor
  IsEmpty IsGeneration IsLeaf IsSibling LastChild LastNonEmpty LastPeriods LastSibling Leaves Level LinkMember
  Member_Caption Member_Key MemberToStr MemberValue MTD Name NameToSet NextMember OpeningPeriod OrderKey Ordinal
  ParallelPeriod Parent PeriodsToDate PrevMember QTD Root SetToArray SetToStr Siblings StrToMember StrToSet
  StrToTuple StrToValue TupleToStr UniqueName UnknownMember Value WTD YTD

  AddCalculatedMembers AllMembers Axis BottomCount BottomPercent BottomSum Cache CachedExists Crossjoin Distinct
  DrilldownLevel DrilldownLevelBottom DrilldownLevelTop DrilldownMember DrilldownMemberBottom DrilldownMemberTop
  DrillupLevel DrillupMember Except Exists Extract Filter Generate Head Hierarchize Intersect
  MeasureGroupMeasures NativizeSet NonEmpty NonEmptyCrossjoin Order StripCalculatedMembers Subset Tail This
  ToggleDrillState TopCount TopPercent TopSum Union Unorder VisualTotals

  Aggregate Avg CalculationCurrentPass CalculationPassValue CoalesceEmpty Correlation Count Covariance
  CovarianceN DistinctCount Divide Error FirstQ Ignore InverseNormal KPICurrentTimeMember KPIGoal KPIStatus
  KPITrend KPIValue KPIWeight LinRegIntercept LinRegPoint LinRegR2 LinRegSlope LinRegVariance Max Median Min
  NullValue Percentile Rank RollupChildren Stddev StddevP Stdev StdevP Sum ThirdQ ValidMeasure Var Variance
  VarianceP VarP

  Cast CBool CByte CCur CDate CDbl CDec Choose CInt CLng CSng CStr CVar CVDate CVErr Hex IIf IsArray IsDate
  IsError IsMissing IsNull IsNumeric IsObject Oct Partition Str Switch TypeName Val VarType

  Asc AscB AscW Chr ChrB ChrW Format FormatCurrency FormatDateTime FormatNumber FormatPercent InStr InStrB
  InStrRev Join LCase Left LeftB Len LenB LTrim Mid MidB Replace Right RightB RTrim Space Split StrComp StrConv
  String StrReverse Trim UCase

  Abs Acos Acosh Asin Asinh Atan2 Atanh Atn Cos Cosh DDB Degrees Exp Fix FV Int IPmt IRR Log Log10 MIRR Mod NPer
  NPV Pi Pmt Power PPmt PV QBColor Radians Rate RGB Round Sgn Sin Sinh SLN Sqr SqrtPi SYD Tan Tanh

  DateAdd DateDiff DatePart DateSerial DateValue Day Hour Minute Month MonthName Second TimeSerial TimeValue
  Weekday WeekdayName Year
`;
const METHODS = 'Item Lag Lead Properties Members Levels Hierarchies Dimensions CalculatedChild';
const KEYWORDS = `
  SELECT FROM WHERE HAVING ON AS NON EMPTY VISUAL EXISTING FOR AND OR XOR NOT IS IN LIKE MATCHES
  CASE WHEN THEN ELSE
`;

export const KNOWN_FUNCTIONS = byWords<Standing>([
  ['function', FUNCTIONS.toLowerCase()],
  ['method', METHODS.toLowerCase()],
  ['keyword', KEYWORDS.toLowerCase()],
]);

/** `anywhere`: as a word, or called in brackets. `called`: only called. `named`: always. */
export type Place = 'anywhere' | 'called' | 'named';

/**
 * Names left out above, in lower case: they read clock, user, server, chance, another cube, or what
 * the statement does not show. They can never be declared stable. `[Date]`, `[Time]` and an
 * unbracketed Date may be dimensions. Cell formatters, though properties of a member, are programs.
 */
export const CHANGING_NAMES: readonly (readonly [Place, string])[] = [
  ['anywhere', 'now timer rnd randomize username customdata lookupcube'],
  ['anywhere', 'currentdatemember currentdatememberexact currentdatestring'],
  ['anywhere', 'parameter paramref'],
  ['called', 'date time'],
  ['named', 'cell_formatter cell_formatter_script'],
];

export const isPrediction = (folded: string) => folded.startsWith('predict');
const CHANGING = new Set(CHANGING_NAMES.flatMap(([, names]) => names.split(' ')));
/** Matches functions of an assembly too (`Assembly.Now`). */
export function isChanging(name: string): boolean {
  const last = foldName(name).split('.').at(-1) ?? '';
  return CHANGING.has(last) || isPrediction(last);
}
