package sm

import "github.com/sarchlab/mgpusim/v4/nvidia/nvidiaconfig"

// The blocks of an SM that has several at a time: the dispatcher's numbers of those that were sent to it, of the warps
// that wait for a subcore, of the warp of each subcore, and of the blocks that have finished.
type gridsmithBlocks struct {
	IsUsed   bool
	sent     []int
	waiting  []int
	running  map[string]int
	left     map[int]int
	finished []int
}

// Expect says which block comes next.
func (b *gridsmithBlocks) Expect(block int) {
	if !b.IsUsed {
		b.IsUsed, b.running, b.left = true, map[string]int{}, map[int]int{}
	}
	b.sent = append(b.sent, block)
}

// TakeFinished is the first of the blocks that have finished.
func (b *gridsmithBlocks) TakeFinished() int {
	block := b.finished[0]
	b.finished = b.finished[1:]
	return block
}

func (b *gridsmithBlocks) arrive(warps []nvidiaconfig.Warp) {
	if !b.IsUsed {
		return
	}
	b.left[b.sent[0]] = len(warps)
	for range warps {
		b.waiting = append(b.waiting, b.sent[0])
	}
	b.sent = b.sent[1:]
}

func (b *gridsmithBlocks) start(subcore string) {
	if b.IsUsed {
		b.running[subcore] = b.waiting[0]
		b.waiting = b.waiting[1:]
	}
}

func (b *gridsmithBlocks) finish(subcore string) int64 {
	block := b.running[subcore]
	b.left[block]--
	if b.left[block] > 0 {
		return 0
	}
	b.finished = append(b.finished, block)
	return 1
}
