declare module "*.shadow.css" {
  const text: string;
  export default text;
}

declare module "*.css";
