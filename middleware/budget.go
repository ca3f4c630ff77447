package middleware

import "sync/atomic"

// A budget bounds the retries of all calls together, so that a fleet in
// trouble is not sent a multiple of its load. It is the token bucket of the
// AWS SDKs' "standard" retry mode: each retry takes five tokens out of 500,
// each call that succeeds puts one back. A retry after a failure to connect
// takes one: nothing was sent, so no engine has worked for it twice (gRPC does
// not count such retries at all, A6).
type budget struct{ tokens atomic.Int64 }

const (
	budgetTokens      = 500 // aws-sdk-go-v2, DefaultRetryRateTokens
	budgetRetryCost   = 5   // aws-sdk-go-v2, DefaultRetryCost
	budgetConnectCost = 1
)

func newBudget() *budget {
	b := new(budget)
	b.tokens.Store(budgetTokens)
	return b
}

// take pays for one retry and reports whether it may be made.
func (b *budget) take(cost int64) bool {
	for {
		n := b.tokens.Load()
		if n < cost {
			return false
		}
		if b.tokens.CompareAndSwap(n, n-cost) {
			return true
		}
	}
}

// refund puts back what a successful call earns.
func (b *budget) refund() {
	for {
		n := b.tokens.Load()
		if n >= budgetTokens || b.tokens.CompareAndSwap(n, n+1) {
			return
		}
	}
}
