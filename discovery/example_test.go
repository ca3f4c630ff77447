package discovery_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/prefixwise/prefixwise/discovery"
)

func ExampleParse() {
	fleet, err := discovery.Parse("http://10.0.0.2:8000/v1, vllm-0=http://10.0.0.1:8000")
	if err != nil {
		fmt.Println(err)
		return
	}
	endpoints, err := fleet.Resolve(context.Background())
	for _, e := range endpoints {
		fmt.Println(e.ID, e.URL)
	}
	fmt.Println(err)
	// Output:
	// http://10.0.0.2:8000 http://10.0.0.2:8000
	// vllm-0 http://10.0.0.1:8000
	// <nil>
}

func ExampleParseURL() {
	e, err := discovery.ParseURL("HTTPS://vllm.example.com/v1/")
	fmt.Println(e.ID, err)
	_, err = discovery.ParseURL("vllm.example.com:8000")
	fmt.Println(err)
	// Output:
	// https://vllm.example.com:443 <nil>
	// discovery: endpoint "vllm.example.com:8000" has no scheme: write "http://vllm.example.com:8000"
}

func ExampleRanks() {
	fleet, err := discovery.Static("vllm-0=http://10.0.0.1:8000")
	if err != nil {
		fmt.Println(err)
		return
	}
	ranks, err := discovery.Ranks(fleet, 2) // vllm serve --data-parallel-size 2
	if err != nil {
		fmt.Println(err)
		return
	}
	endpoints, _ := ranks.Resolve(context.Background())
	fmt.Println(endpoints)
	// Output:
	// [vllm-0#0 vllm-0#1]
}

func ExampleWatch() {
	// An engine of sorts: it is healthy and serves a model and an adapter.
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			fmt.Fprint(w, `{"data":[{"id":"llama"},{"id":"llama-sql"}]}`)
		}
	}))
	defer engine.Close()

	fleet, err := discovery.Static("vllm-0=" + engine.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan discovery.Member)
	w, err := discovery.Watch(discovery.Options{
		Resolvers: []discovery.Resolver{fleet},
		OnChange: func(members []discovery.Member) {
			if m := members[0]; m.Health == discovery.Healthy && m.Models != nil {
				done <- m
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close()
	m := <-done
	fmt.Println(m.ID, m.Health, m.Models)
	// Output:
	// vllm-0 healthy [llama llama-sql]
}
