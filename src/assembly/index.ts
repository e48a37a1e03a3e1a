/** `coppice/assembly`: what a preset resolved to, and the providers that exist. */
export { Assembly, type AssemblyReport } from "./Assembly.ts"
export {
  contracts,
  type PluginFacts,
  PluginRefused,
  type WorkspacePlugin,
  type WorkspacePluginModule
} from "./Plugin.ts"
export { type AssemblyError, coppiceVersion, PresetOptionsError } from "./Preset.ts"
export {
  type Part,
  type PartKind,
  type ProviderName,
  providerName,
  type Registry,
  UnknownProvider
} from "./Registry.ts"
export { type Check, type CheckState, diagnose, type DoctorReport } from "./Doctor.ts"
