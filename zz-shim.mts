export const describe=(_:string,f:()=>void)=>{}; export const test=()=>{}; export const expect=()=>({}) as any;
