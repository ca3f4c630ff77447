package affinity

// What a choice costs, in seconds. Waiting and computing are what the request
// itself takes. The rest is what it does to others: while it computes, requests
// that come after it wait, and on an endpoint that gets more than its share for
// long it pushes out more of what others have cached. Away from home, the next
// turn of the conversation may come from another client, go home, and compute
// all over again what this turn leaves elsewhere.
//
// The rule and its numbers come from simulations on recorded traffic; each was
// tried at several values and most of them hardly matter.
const (
	delayWeight   = 2.0  // of the delay to others; 1 would be theory, 1 to 4 do as well
	futureWeight  = 4.0  // of the next turn's recomputing; 1 would be theory: it buys hits for time
	inflowWeight  = 2.0  // of inflow above the mean
	inflowMost    = 3.0  // where that price stops rising
	askedAgain    = .25  // chance that a document is asked about again, and by another client: half for either, as of turns before any is known
	awayMargin    = .1   // what leaving home must gain at least, in mean prefills of a whole prompt
	inFlightPrice = .01  // of each request this router has in flight there, likewise; mostly to break ties
	strangerShare = .3   // share of turns that profit when clients agree on homes, since another client sent the last one and it is still cached, above which they do
	foundTrust    = 8    // later turns taken to have found what the last one left, before any is known; 4 and 16 do as well
	turnMemory    = 200  // requests over which such shares are means
	overflowStart = 1.15 // inflow over the mean at which an endpoint begins to hand on keys
	overflowGain  = .5   // part of its keys for each unit above that
	overflowMost  = .8   // part of its keys that it hands on at most
)

// prices are what is the same for all candidates of a pick.
type prices struct {
	delay float64 // added cost of a second of computing, for each second that the request takes
	away  float64 // added cost of any endpoint but home
	each  float64 // added cost for each request of this router in flight
}

// newPrices works them out from the fleet's load, the prefill that a turn would
// cost at home, the chance that a next turn comes from elsewhere, the mean time
// to first token, and the mean prefill of a whole prompt, which is the measure of
// what matters: a tenth of a second is little for a long prompt and a fast engine's
// whole answer to a short one.
func newPrices(o *outlook, home, strangers, ttft, whole float64) prices {
	p := prices{away: awayMargin * whole, each: inFlightPrice * whole}
	if o != nil {
		p.delay = delayWeight * o.rate / (1 - o.busy)
	}
	p.away += futureWeight * strangers * home * (1 + p.delay*ttft)
	return p
}

// cost returns what a request costs on an endpoint where it would wait, and
// compute, so many seconds, which has that inflow and has requests of this
// router in flight.
func (p prices) cost(wait, compute, inflow float64, inFlight int64) float64 {
	excess := max(0, min(inflow, inflowMost)-1)
	return wait + compute*(1+p.delay*(wait+compute)+inflowWeight*excess) + p.each*float64(inFlight)
}

// handsOn tells whether an endpoint with this inflow hands on a key, of which
// lot is a random-looking number of the key and the endpoint. The same keys go
// in every client, and they come back one by one as the inflow falls.
func handsOn(inflow float64, lot uint64) bool {
	part := min(overflowMost, overflowGain*(inflow-overflowStart))
	return float64(lot>>11)/(1<<53) < part
}
