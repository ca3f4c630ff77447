// Package canonbench compares canon with general JSON libraries that
// canonicalize: gowebpki/jcs (RFC 8785) and go-json-experiment's jsontext. It is
// a module of its own, so that the library does not depend on them.
//
//	cd internal/canonbench && go test -bench . -benchtime 1s
//
// They do less and more than canon at once. They know no field, so they sort
// properties and keep what a request may lose, and they hash nothing; jcs
// rewrites numbers as IEEE doubles. What is compared is the price of reading a
// request and writing it canonically. TestShortest measures the shortest of
// many runs of each and checks canon's goal against encoding/json; the shortest
// run is the one that a busy machine disturbs least.
package canonbench
