/*
 * plan.cuh: plans, and how they are read.
 *
 * A plan is lines of words; `#` begins a comment:
 *
 *   run ID CLASS           begins a run
 *   kernel NAME KEY=VALUE  describes a kernel; keys, with defaults: grid=1,1,1 block=32,1,1 live=0 (words that a
 *                          thread keeps in registers) shared=0 stream=- (its own) cluster=1 cooperative=0
 *                          programmatic=0 trigger=never|early|some|late priority=0 carveout=-1 after=A,B (only nodes)
 *                          us=0 spread=0 (each block runs so long; 0: until its exit) green=-1 (of 4 contexts)
 *                          by=NAME (the kernel that launches it, of one block; needs -DCHILDREN -rdc=true)
 *   memory NAME KEY=VALUE  describes a memset or copy, which can only be a node; keys: bytes=4 after=A,B
 *                          kind=memset|host_to_device|device_to_host|device_to_device
 *   launch NAME            launches it into its stream
 *   graph N NAME ...       makes a graph with these nodes, in this order, and launches it
 *   trigger NAME           the blocks with trigger=late, and every second one with trigger=some, trigger
 *   exit NAME              its blocks exit
 *   end                    plays the run
 */
#pragma once

#include "blocks.cuh"

#include <fstream>
#include <map>
#include <sstream>
#include <vector>

enum { GREENS = 4, MOST_BYTES = 1 << 20 };

struct kernel {
    std::string name, stream = "-", by; /* by: the kernel that launches it; empty: the host */
    unsigned grid[3] = {1, 1, 1}, block[3] = {32, 1, 1};
    int live = 0, shared = 0, cluster = 1, cooperative = 0, programmatic = 0, trigger = NEVER, priority = 0;
    int carveout = -1, graph = -1, green = -1, bytes = 4;
    double us = 0, spread = 0;
    std::string memory; /* of a memset or copy: its kind */
    std::vector<std::string> after;
    /* while it is played */
    int launched = -1, exits = -1, triggers = -1; /* slots */
    int written = -1;                             /* the slot in which it is written as launched */
    size_t notes = 0;                             /* the first of its notes */
    uint32_t blocks() const {
        return memory.empty() ? all_blocks() : 0;
    }
    uint32_t all_blocks() const {
        return grid[0] * grid[1] * grid[2];
    }
    uint32_t threads() const {
        return block[0] * block[1] * block[2];
    }
};

struct event {
    std::string op;
    int graph = -1;
    std::vector<int> kernels;
};

struct plan {
    std::string id, type;
    std::vector<kernel> kernels;
    std::vector<event> events;
    std::map<std::string, int> names;
    bool is_timed = false;
};

static void read_sizes(const std::string &text, unsigned sizes[3]) {
    if (sscanf(text.c_str(), "%u,%u,%u", &sizes[0], &sizes[1], &sizes[2]) < 1)
        fail("not a size", text);
}

static std::vector<std::string> split(const std::string &text, char at) {
    std::vector<std::string> parts;
    std::stringstream stream(text);
    for (std::string part; std::getline(stream, part, at);)
        parts.push_back(part);
    return parts;
}

static int trigger_of(const std::string &word) {
    static const char *const words[] = {"never", "early", "some", "late"};
    for (int i = 0; i < 4; i++)
        if (word == words[i])
            return i;
    fail("unknown trigger", word);
}

static void set_key(kernel &k, const std::string &key, const std::string &value) {
    std::map<std::string, int *> numbers = {{"live", &k.live},
                                            {"shared", &k.shared},
                                            {"cluster", &k.cluster},
                                            {"cooperative", &k.cooperative},
                                            {"programmatic", &k.programmatic},
                                            {"priority", &k.priority},
                                            {"carveout", &k.carveout},
                                            {"green", &k.green},
                                            {"bytes", &k.bytes}};
    if (numbers.count(key))
        *numbers[key] = atoi(value.c_str());
    else if (key == "grid")
        read_sizes(value, k.grid);
    else if (key == "block")
        read_sizes(value, k.block);
    else if (key == "stream")
        k.stream = value;
    else if (key == "trigger")
        k.trigger = trigger_of(value);
    else if (key == "kind")
        k.memory = value;
    else if (key == "by")
        k.by = value;
    else if (key == "after")
        k.after = split(value, ',');
    else if (key == "us")
        k.us = atof(value.c_str());
    else if (key == "spread")
        k.spread = atof(value.c_str());
    else
        fail("unknown key", key);
}

static int find_kernel(const plan &p, const std::string &name) {
    auto at = p.names.find(name);
    if (at == p.names.end())
        fail("unknown kernel", name);
    return at->second;
}

static void read_kernel(plan &p, const std::vector<std::string> &words) {
    kernel k;
    k.name = words.at(1);
    for (size_t i = 2; i < words.size(); i++) {
        size_t equals = words[i].find('=');
        if (equals == std::string::npos)
            fail("not a key with a value", words[i]);
        set_key(k, words[i].substr(0, equals), words[i].substr(equals + 1));
    }
    if ((words[0] == "memory") == k.memory.empty() || k.green >= GREENS || k.bytes < 4 || k.bytes > MOST_BYTES)
        fail("not a kernel or a memory node", k.name);
    p.is_timed |= k.us > 0;
    if (k.trigger == SOME && k.blocks() == 1)
        k.trigger = EARLY;
    p.names[k.name] = (int)p.kernels.size();
    p.kernels.push_back(k);
}

static void read_event(plan &p, const std::vector<std::string> &words) {
    event e;
    size_t first = 1;
    e.op = words[0];
    if (e.op == "graph")
        e.graph = atoi(words.at(first++).c_str());
    int slot = (int)p.events.size();
    for (size_t i = first; i < words.size(); i++) {
        int number = find_kernel(p, words[i]);
        kernel &k = p.kernels[number];
        e.kernels.push_back(number);
        (e.op == "exit" ? k.exits : e.op == "trigger" ? k.triggers : k.launched) = slot;
        k.graph = e.op == "graph" ? e.graph : k.graph;
    }
    p.events.push_back(e);
}

/* Reads a run; false: there are no more. */
static bool read_plan(std::istream &in, plan &p) {
    p = plan();
    for (std::string line; std::getline(in, line);) {
        std::stringstream stream(line.substr(0, line.find('#')));
        std::vector<std::string> words;
        for (std::string word; stream >> word;)
            words.push_back(word);
        if (words.empty())
            continue;
        if (words[0] == "run")
            p.id = words.at(1), p.type = words.at(2);
        else if (words[0] == "kernel" || words[0] == "memory")
            read_kernel(p, words);
        else if (words[0] == "end")
            return true;
        else if (words[0] == "launch" || words[0] == "graph" || words[0] == "exit" || words[0] == "trigger")
            read_event(p, words);
        else
            fail("unknown line", words[0]);
    }
    return false;
}
