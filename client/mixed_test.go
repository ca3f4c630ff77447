package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/discovery"
)

func TestMixed(t *testing.T) {
	for _, tt := range []struct {
		models [][]string
		want   bool
	}{
		{nil, false},
		{[][]string{{"a", "b"}, {"b", "a"}}, false},
		{[][]string{{"a"}, nil, {"a"}}, false},
		{[][]string{{"a"}, {"a", "b"}}, true},
		{[][]string{{"a"}, {}}, true},
	} {
		var members []discovery.Member
		for _, models := range tt.models {
			members = append(members, discovery.Member{Models: models})
		}
		require.Equal(t, tt.want, mixed(members), tt.models)
	}
}
