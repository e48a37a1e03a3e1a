/**
 * Which failure class a host's failure is (G84), from what is known of it.
 * Promise: what the host or its provider says by name beats the HTTP status, and both beat how a process ended; what nobody knows
 * is `unknown` and not guessed. Pure. Rules: G84. Names and meanings: the providers' own lists of error codes, RFC 9110 for the
 * status codes, errno(3) for the system's.
 */
import { type FailureClass, HostFailure } from "./Host.ts"
import type { TurnResult } from "./TurnProtocol.ts"

/** What is known of a failure. Whatever is not known is left out. */
export interface FailureSigns {
  /** The provider's own name for it: an error type or code, in any spelling of case, `-` and `_`. */
  readonly providerCode?: string | undefined
  readonly httpStatus?: number | undefined
  /** The operating system's name of a failed connection, such as `ECONNRESET`. */
  readonly systemCode?: string | undefined
  /** The time limit of the turn was reached. */
  readonly timedOut?: boolean | undefined
  /** It printed or answered more than it may. */
  readonly overOutput?: boolean | undefined
}

const codes: { readonly [C in FailureClass]?: readonly string[] } = {
  auth: [
    "authentication_error",
    "permission_error",
    "invalid_api_key",
    "incorrect_api_key",
    "unauthorized",
    "unauthenticated",
    "forbidden",
    "permission_denied",
    "access_denied",
    "AccessDeniedException",
    "UnrecognizedClientException",
    "ExpiredTokenException",
    "token_expired"
  ],
  contract: [
    "invalid_request_error",
    "invalid_request",
    "invalid_argument",
    "request_too_large",
    "context_length_exceeded",
    "model_not_found",
    "not_found_error",
    "unsupported_parameter",
    "content_policy_violation",
    "failed_precondition",
    "ValidationException",
    "ResourceNotFoundException"
  ],
  executorTimeout: ["timeout_error", "deadline_exceeded", "ModelTimeoutException"],
  outputBudget: ["max_output_tokens", "output_limit", "output_too_large", "max_tokens_exceeded"],
  capacity: ["capacity", "no_capacity", "at_capacity", "ModelNotReadyException", "insufficient_capacity"],
  overloaded: [
    "overloaded_error",
    "overloaded",
    "engine_overloaded",
    "server_overloaded",
    "server_is_overloaded",
    "service_unavailable",
    "unavailable",
    "ServiceUnavailableException"
  ],
  quotaExhausted: [
    "insufficient_quota",
    "quota_exceeded",
    "billing_error",
    "billing_hard_limit_reached",
    "billing_not_active",
    "credit_balance_too_low",
    "usage_limit_reached",
    "ServiceQuotaExceededException"
  ],
  rateLimited: [
    "rate_limit_error",
    "rate_limit_exceeded",
    "rate_limited",
    "too_many_requests",
    "tokens_exceeded",
    "requests_exceeded",
    "resource_exhausted",
    "slow_down",
    "ThrottlingException",
    "TooManyRequestsException"
  ],
  sessionMissing: ["session_not_found", "thread_not_found", "conversation_not_found", "unknown_session"],
  transportLost: [
    "connection_error",
    "api_connection_error",
    "stream_disconnected",
    "connection_closed",
    "network_error",
    "ECONNRESET",
    "ECONNREFUSED",
    "ECONNABORTED",
    "ENETUNREACH",
    "EHOSTUNREACH",
    "ENOTFOUND",
    "EAI_AGAIN",
    "EPIPE",
    "ETIMEDOUT"
  ]
}

const plain = (code: string): string => code.toLowerCase().replaceAll(/[^a-z0-9]/g, "")

const byCode: ReadonlyMap<string, FailureClass> = new Map(
  Object.entries(codes).flatMap(([name, list]) => list.map((code) => [plain(code), name as FailureClass] as const))
)

/** Classes of this very name may be given as a code: a host that knows the list need not translate twice. */
const named = (code: string | undefined): FailureClass | undefined => {
  if (code === undefined) return undefined
  const wanted = plain(code)
  return byCode.get(wanted) ?? (Object.keys(codes) as FailureClass[]).find((name) => plain(name) === wanted)
}

const byStatus = (status: number | undefined): FailureClass | undefined => {
  if (status === undefined) return undefined
  if (status === 401 || status === 403) return "auth"
  if (status === 402) return "quotaExhausted"
  if (status === 429) return "rateLimited"
  if (status === 408 || status === 502 || status === 504) return "transportLost"
  // 529: "site is overloaded", which some providers use beside 503.
  if (status === 503 || status === 529) return "overloaded"
  if (status >= 400 && status < 500) return "contract"
  return undefined
}

/** The class. What the turn's own supervision saw (its time limit, its output limit) is certain and comes first. */
export const classifyFailure = (signs: FailureSigns): FailureClass => {
  if (signs.timedOut === true) return "executorTimeout"
  if (signs.overOutput === true) return "outputBudget"
  return named(signs.providerCode) ?? byStatus(signs.httpStatus) ?? named(signs.systemCode) ?? "unknown"
}

/**
 * The failure that a host reports of its own iteration, where its cause is one of the classes; undefined where the answer is one
 * to be read as it is. What it used stays with it.
 */
export const reportedFailure = ({ outcome, failure, usage }: TurnResult): HostFailure | undefined => {
  if (outcome !== "failed" || failure === undefined) return undefined
  const { retryAfterMs, ...signs } = failure
  const failureClass = classifyFailure(signs)
  if (failureClass === "unknown") return undefined
  return new HostFailure({
    class: failureClass,
    check: "reported",
    message: `The host reports that its provider failed (${failureClass})`,
    remedy: "See the provider's own words in the private text of the record.",
    exitCode: null,
    ...(usage === undefined ? {} : { usage }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs })
  })
}
