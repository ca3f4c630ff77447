// Package pwprom shows a Prefixwise client to Prometheus.
//
//	metrics := pwprom.New()
//	c, err := client.New(client.WithEndpoints(…), client.WithObserver(metrics.Trace()))
//	if err != nil { … }
//	metrics.Watch(c)
//	prometheus.MustRegister(metrics)
//
// Every metric is this process's own view; sum over processes for the fleet's.
//
// # Calls
//
// A call is one request of the application, with all its attempts.
//
//   - prefixwise_call_duration_seconds{outcome}: a histogram of the time to the
//     end of the answer; its count is the number of calls. The outcome is "ok",
//     "refused" (an engine's error response), "failed" or "canceled".
//   - prefixwise_time_to_first_token_seconds{outcome}: a histogram of the time
//     to the first content of streams.
//   - prefixwise_failures_total{cause}: calls that were refused or failed, by
//     an HTTP status such as "503" or a name such as "connect_timeout"; see
//     middleware.Done.Cause.
//   - prefixwise_retries_total{cause}: attempts that failed and were followed
//     by another.
//   - prefixwise_failovers_total: calls that were answered in full, though not
//     by their first attempt.
//   - prefixwise_prompt_tokens_total and prefixwise_cached_tokens_total, over
//     the calls for which engines reported both, so that their ratio is the
//     token hit rate; prefixwise_completion_tokens_total.
//
// # Endpoints
//
// The label endpoint is the endpoint's identity.
//
//   - prefixwise_endpoints: how many there are.
//   - prefixwise_endpoint_in_flight: attempts under way.
//   - prefixwise_endpoint_requests_total and prefixwise_endpoint_failures_total:
//     attempts, and those that failed by the endpoint's doing.
//   - prefixwise_endpoint_overflows_total{reason}: attempts that came here
//     although another endpoint is preferred.
//   - prefixwise_endpoint_prompt_tokens_total and
//     prefixwise_endpoint_cached_tokens_total: as above, by endpoint.
//   - prefixwise_endpoint_ejections_total: how often it was set aside for
//     failing, and prefixwise_endpoint_set_aside: whether it is now (1 or 0).
//   - prefixwise_endpoint_healthy: what its health check says (1 or 0); absent
//     while that is unknown.
//
// # Cardinality
//
// Series exist for the endpoints of the moment only: those of an endpoint go
// with it, when its last request has ended. If it returns, its counters go on
// from where they were, since the client remembers the last 1,024 endpoints
// that left; one that is away for longer starts at zero, which Prometheus takes
// for the restart of a counter. Nothing that a caller can make up (model,
// tenant, session, prompt) is a label.
package pwprom
