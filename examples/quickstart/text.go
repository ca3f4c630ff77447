package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// author writes prose without meaning, always the same for the same seed. Only
// its amount and its repetitions matter to a prefix cache.
type author struct{ *rand.Rand }

// newAuthor returns the author of one piece of the traffic: what one says does
// not depend on what others have said before.
func newAuthor(kind kind, number int) author {
	const seed = 20261129 // any other gives another text of the same shape
	return author{rand.New(rand.NewPCG(seed, uint64(kind)<<32|uint64(number)))}
}

var vocabulary = strings.Fields(`
	account address advance agreement amount annual answer approve area article
	attach average balance basis before benefit between board branch budget
	building capital carry case change charge city claim clause client close
	collect comment common company condition contract control copy correct cost
	council country course cover credit customer daily damage date decide deliver
	demand deposit detail develop device direct district document draft during
	early effect either energy engine enter equal error estimate event exact
	example exceed expect extend factor figure final finance follow foreign form
	forward fund future general goods grant group growth handle harbour health
	history hold house import improve income increase index inform inner inspect
	insure interest invoice issue item join journey keep kind labour large later
	leader lease level library limit line local machine main manage margin market
	master matter measure medium member method minor model month motor network
	normal notice number object observe offer office open operate option order
	other output owner paper part party pattern payment period permit person place
	plan point policy position power present price private process produce profit
	project proper public purpose quality quarter question range rate reach reason
	receive record reduce region regular remain renew repair report request
	reserve result return review right river road rule safety sample schedule
	season second section sector secure service settle share ship short signal
	single site small source space stage standard state station stock storage
	street strong subject supply support surface survey system table term test
	third title total trade train transfer travel treaty under union unit until
	update value various vehicle version visit volume water weight whole window
	winter within work year yield zone`)

// words returns n words in sentences of 6 to 18 words.
func (a author) words(n int) string {
	var b strings.Builder
	left := 0
	for i := range n {
		w := vocabulary[a.IntN(len(vocabulary))]
		switch {
		case left > 0:
			b.WriteByte(' ')
		case i > 0:
			b.WriteString(". ")
		}
		if left == 0 {
			left = 6 + a.IntN(13)
			w = strings.ToUpper(w[:1]) + w[1:]
		}
		b.WriteString(w)
		left--
	}
	return b.String() + "."
}

// document returns about n words under numbered headings.
func (a author) document(n int) string {
	var b strings.Builder
	for section := 1; n > 0; section++ {
		size := min(n, 150+a.IntN(100))
		n -= size
		fmt.Fprintf(&b, "%d. %s\n\n%s\n\n", section, a.words(3), a.words(size))
	}
	return strings.TrimSpace(b.String())
}

// logLines returns n lines as a log has them.
func (a author) logLines(n int) string {
	var b strings.Builder
	for range n {
		fmt.Fprintf(&b, "09:%02d:%02d.%03d %s/%s status=%d took=%dms %s\n", a.IntN(60), a.IntN(60), a.IntN(1000),
			vocabulary[a.IntN(len(vocabulary))], vocabulary[a.IntN(len(vocabulary))],
			[]int{200, 200, 404, 500, 503}[a.IntN(5)], a.IntN(5000), a.words(5))
	}
	return b.String()
}
