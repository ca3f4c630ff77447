package affinity_test

import (
	"errors"
	"fmt"

	"github.com/prefixwise/prefixwise/affinity"
)

// A conversation keeps its endpoint from turn to turn, and overflows to the
// next of its own order when that endpoint is at its limit.
func Example() {
	router, err := affinity.New(affinity.Options{Limit: 1})
	if err != nil {
		panic(err)
	}
	err = router.Set([]affinity.Endpoint{{ID: "alpha"}, {ID: "bravo"}, {ID: "charlie"}})
	if err != nil {
		panic(err)
	}
	turn := affinity.Request{Head: 0x5eed, Root: 0xc0ffee}

	first, _ := router.Pick(&turn)
	fmt.Println(first.Endpoint(), first.Reason())
	meanwhile, _ := router.Pick(&turn)
	fmt.Println(meanwhile.Endpoint(), meanwhile.Reason(), "from", meanwhile.Home())
	first.Release(affinity.Outcome{Status: 200, PromptTokens: 1200, CachedTokens: 1184})
	meanwhile.Release(affinity.Outcome{Status: 200, PromptTokens: 1200, CachedTokens: 0})

	next, _ := router.Pick(&turn)
	defer next.Release(affinity.Outcome{})
	fmt.Println(next.Endpoint(), next.Reason())
	// Output:
	// alpha home
	// bravo overflow-full from alpha
	// alpha home
}

// A call that failed is tried elsewhere.
func ExampleRouter_Pick_failover() {
	router, _ := affinity.New(affinity.Options{})
	_ = router.Set([]affinity.Endpoint{{ID: "alpha"}, {ID: "bravo"}, {ID: "charlie"}})
	req := affinity.Request{Root: 0xc0ffee}
	for range 2 {
		lease, err := router.Pick(&req)
		if err != nil {
			panic(err)
		}
		fmt.Println(lease.Endpoint(), lease.Reason())
		lease.Release(affinity.Outcome{Err: errors.New("connection refused"), Remote: true})
		req.Tried = append(req.Tried, lease.Endpoint())
	}
	// Output:
	// alpha home
	// bravo failover
}

// Order shows where a key would go, and where it would go next.
func ExampleOrder() {
	req := affinity.Request{Root: 0xc0ffee, Tenant: "acme"}
	_, key := req.Keys()
	fmt.Println(affinity.Order(key, []affinity.Endpoint{{ID: "alpha"}, {ID: "bravo"}, {ID: "charlie", Weight: 2}}))
	// Output:
	// [bravo charlie alpha]
}
