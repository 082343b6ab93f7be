// Package gridsmith is the block dispatcher of libgridsmith for simulators that are written in Go.
//
// A simulator says which kernels are launched and which blocks end, and asks for the SM of the next block. A Dispatcher
// must be closed, and used by one goroutine at a time.
package gridsmith

/*
#cgo pkg-config: gridsmith
#include <gridsmith/gridsmith.h>
#include <stdlib.h>
*/
import "C"

import (
	"errors"
	"unsafe"
)

// Wait is the answer of Next if no block of the launch can start now.
const Wait = int(C.GS_WAIT)

// Limits of a GPU that has others than the one with the given name. 0: that of the named one.
type Limits struct {
	SMs, BlocksPerSM, ThreadsPerSM, ThreadsPerBlock, RegistersPerSM, SharedPerSM, SharedPerBlock int
}

// Kernel is a launch: what a block needs, and how many there are. Fields that are 0 have their defaults.
type Kernel struct {
	Name                                       string
	Blocks                                     int64
	Threads, Registers, Shared, LocalPerThread int
	Cluster, Priority                          int
	Stream                                     string // launches of one stream run one after the other; "": its own
	Cooperative                                bool
}

// Dispatcher is the state of one GPU.
type Dispatcher struct {
	gpu        *C.gs_gpu
	dispatcher *C.gs_dispatcher
	isCopy     bool // the GPU belongs to another
}

func asError(e *C.gs_error) error {
	var text [700]C.char
	return errors.New(C.GoString(C.gs_error_text(e, &text[0], C.size_t(len(text)))))
}

// New makes an empty GPU with the mechanisms of the one with this name.
func New(name string, limits Limits) (*Dispatcher, error) {
	var e C.gs_error
	like := C.CString(name)
	defer C.free(unsafe.Pointer(like))
	given := C.gs_gpu_limits{
		sms:                    C.int32_t(limits.SMs),
		blocks_per_sm:          C.int32_t(limits.BlocksPerSM),
		threads_per_sm:         C.int32_t(limits.ThreadsPerSM),
		threads_per_block:      C.int32_t(limits.ThreadsPerBlock),
		registers_per_sm:       C.int32_t(limits.RegistersPerSM),
		shared_per_sm_bytes:    C.int32_t(limits.SharedPerSM),
		shared_per_block_bytes: C.int32_t(limits.SharedPerBlock),
	}
	gpu := C.gs_gpu_new(like, &given, &e)
	if gpu == nil {
		return nil, asError(&e)
	}
	dispatcher := C.gs_dispatcher_new(gpu, &e)
	if dispatcher == nil {
		C.gs_gpu_free(gpu)
		return nil, asError(&e)
	}
	return &Dispatcher{gpu, dispatcher, false}, nil
}

// Close frees the dispatcher.
func (d *Dispatcher) Close() {
	C.gs_dispatcher_free(d.dispatcher)
	if !d.isCopy {
		C.gs_gpu_free(d.gpu)
	}
	d.dispatcher, d.gpu = nil, nil
}

// SMs is the number of SMs.
func (d *Dispatcher) SMs() int {
	return int(C.gs_gpu_sms(d.gpu))
}

// Launch returns the number of the launch, for Next, Place and Why.
func (d *Dispatcher) Launch(kernel Kernel) (int, error) {
	var e C.gs_error
	spec := C.gs_launch_spec{
		blocks:         C.int64_t(kernel.Blocks),
		cluster:        C.int32_t(kernel.Cluster),
		priority:       C.int32_t(kernel.Priority),
		is_cooperative: C.bool(kernel.Cooperative),
	}
	spec.shape = C.gs_shape_of(C.int32_t(kernel.Threads), C.int32_t(kernel.Registers), C.int64_t(kernel.Shared))
	spec.shape.local_bytes = C.int64_t(kernel.LocalPerThread)
	spec.kernel = C.CString(kernel.Name)
	defer C.free(unsafe.Pointer(spec.kernel))
	if kernel.Stream != "" {
		spec.stream = C.CString(kernel.Stream)
		defer C.free(unsafe.Pointer(spec.stream))
	}
	launch := int(C.gs_dispatcher_launch(d.dispatcher, &spec, &e))
	if launch < 0 {
		return 0, asError(&e)
	}
	return launch, nil
}

// Next is the SM of the next block of a launch, or Wait.
func (d *Dispatcher) Next(launch int) int {
	return int(C.gs_dispatcher_next(d.dispatcher, C.int(launch)))
}

// Place starts that block on its SM, and returns its handle; -1: it does not start there.
func (d *Dispatcher) Place(launch, sm int) int {
	return int(C.gs_dispatcher_place(d.dispatcher, C.int(launch), C.int(sm)))
}

// Release ends a block.
func (d *Dispatcher) Release(block int) {
	C.gs_dispatcher_release(d.dispatcher, C.int(block))
}

// WaitUntil says how late it is.
func (d *Dispatcher) WaitUntil(nanoseconds int64) {
	C.gs_dispatcher_wait_until(d.dispatcher, C.int64_t(nanoseconds))
}

// Why says why blocks of the launch wait; "": none waits.
func (d *Dispatcher) Why(launch int) string {
	why := C.gs_dispatcher_why(d.dispatcher, C.int(launch), nil)
	defer C.gs_string_free(why)
	return C.GoString(why)
}

// Copy makes a dispatcher in the same state, which shares nothing. It must be closed before the one that it is a copy of.
func (d *Dispatcher) Copy() (*Dispatcher, error) {
	var e C.gs_error
	copied := C.gs_dispatcher_new(d.gpu, &e)
	if copied == nil || C.gs_dispatcher_copy(copied, d.dispatcher, &e) != C.GS_OK {
		C.gs_dispatcher_free(copied)
		return nil, asError(&e)
	}
	return &Dispatcher{d.gpu, copied, true}, nil
}

// Equal is whether a dispatcher and a copy of it are in the same state.
func (d *Dispatcher) Equal(other *Dispatcher) bool {
	return bool(C.gs_dispatcher_equal(d.dispatcher, other.dispatcher, nil))
}
