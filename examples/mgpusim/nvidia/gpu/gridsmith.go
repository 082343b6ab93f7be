package gpu

import (
	"fmt"
	"os"
	"strconv"

	"github.com/sarchlab/mgpusim/v4/nvidia/gridsmith"
	"github.com/sarchlab/mgpusim/v4/nvidia/message"
	"github.com/sarchlab/mgpusim/v4/nvidia/nvidiaconfig"
	"github.com/sarchlab/mgpusim/v4/nvidia/sm"
)

// GRIDSMITH_GPU names the GPU that dispatches; without it MGPUSim does. GRIDSMITH_SMS is the number of SMs.
// GRIDSMITH_LOG is a file that gets the kernel, the block and the SM of each block.
type gridsmithState struct {
	dispatcher *gridsmith.Dispatcher
	launch     int
	ordered    []*sm.SM
	log        *os.File
	kernels    int
	blocks     int
}

// GridsmithSMs is the number of SMs, if nothing else is said the given one.
func GridsmithSMs(sms int64) int64 {
	if given, err := strconv.Atoi(os.Getenv("GRIDSMITH_SMS")); err == nil {
		return int64(given)
	}
	return sms
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "gridsmith:", err)
		os.Exit(2)
	}
}

func (g *GPU) launchInGridsmith(kernel *nvidiaconfig.Kernel) {
	state, err := &g.gridsmith, error(nil)
	if state.ordered == nil {
		state.ordered = append(state.ordered, g.freeSMs...)
		if name := os.Getenv("GRIDSMITH_LOG"); name != "" {
			state.log, err = os.Create(name)
			check(err)
		}
		if name := os.Getenv("GRIDSMITH_GPU"); name != "" {
			state.dispatcher, err = gridsmith.New(name, gridsmith.Limits{SMs: len(state.ordered)})
			check(err)
		}
	}
	state.kernels, state.blocks = state.kernels+1, 0
	if state.dispatcher != nil {
		state.launch, err = state.dispatcher.Launch(gridsmith.Kernel{
			Name: "kernel", Blocks: kernel.ThreadblocksCount,
			Threads: kernel.Threads, Registers: kernel.Registers, Shared: kernel.Shared})
		check(err)
	}
}

func (g *GPU) noteInGridsmith(on *sm.SM) {
	state := &g.gridsmith
	for i := 0; state.log != nil && i < len(state.ordered); i++ {
		if state.ordered[i] == on {
			fmt.Fprintln(state.log, "start", state.kernels, state.blocks, i, 0, int64(g.Engine.CurrentTime()))
		}
	}
	state.blocks++
}

func (g *GPU) dispatchByGridsmith() bool {
	state := &g.gridsmith
	next := state.dispatcher.Next(state.launch)
	if len(g.undispatchedThreadblocks) == 0 || next == gridsmith.Wait {
		return false
	}
	on := state.ordered[next]
	msg := &message.DeviceToSMMsg{Threadblock: *g.undispatchedThreadblocks[0]}
	msg.Src = g.toSMs.AsRemote()
	msg.Dst = on.GetPortByName(fmt.Sprintf("%s.ToGPU", on.Name())).AsRemote()
	if g.toSMs.Send(msg) != nil {
		return false
	}
	on.Gridsmith.Expect(state.dispatcher.Place(state.launch, next))
	g.noteInGridsmith(on)
	g.undispatchedThreadblocks = g.undispatchedThreadblocks[1:]
	return true
}

func (g *GPU) releaseInGridsmith(on *sm.SM) {
	state := &g.gridsmith
	if state.dispatcher != nil {
		state.dispatcher.Release(on.Gridsmith.TakeFinished())
	}
	if state.log != nil {
		fmt.Fprintln(state.log, "end", state.kernels, 0, 0, 0, int64(g.Engine.CurrentTime()))
	}
}
