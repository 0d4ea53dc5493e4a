/** Of a gateway whose warm-up is off. */
export const NO_WARM_UP = { begin: async () => ({ id: '' }), tell: async () => ({}) };
export const NO_CANDIDATES = { noteWay() {}, noteBeginning() {} };
