//! The user's own modules: the Python files that a script imports from its own directory, directly
//! or by way of each other, with their hashes. Found by a look at the import statements, so nothing
//! is run; what is imported by other means is not found. Bounded in number and size.

use std::{
    collections::{HashSet, VecDeque},
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    Question,
    files::{Content, Run, content, run},
};

/// Most files that are looked at.
const FILES: usize = 200;

/// The most of one file that is searched for import statements.
const SEARCHED: u64 = 1 << 20;

/// Most lines of one statement.
const LINES: usize = 200;

/// A file of the user's own that the command imports, or runs by `python -m`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Module {
    /// Its path, from the working directory if it is below that.
    pub(crate) name: String,
    /// The file that imports it; none if it is what `python -m` runs.
    pub(crate) imported_by: Option<String>,
    /// The hash in hexadecimal digits.
    pub(crate) hash: String,
}

/// One import statement: `from ..module import names`, with a level of 2.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Import {
    level: usize,
    module: Vec<String>,
    names: Vec<String>,
}

/// The file that `python -m` of this name runs, if it is one of the user's own.
pub(super) fn module_file(question: &Question, module: &str) -> Option<PathBuf> {
    let path: PathBuf = module.split('.').collect();
    let is_name = |part: &str| !part.is_empty() && !part.contains('/');
    if !module.split('.').all(is_name) {
        return None;
    }
    let roots = roots(question, &question.resolve(""));
    let found = roots.iter().flat_map(|root| {
        let file = root.join(&path);
        [file.with_extension("py"), file.join("__main__.py")]
    });
    found.into_iter().find(|file| file.is_file())
}

/// The user's own modules, in the order in which they are found.
pub(super) fn modules(question: &Question) -> Vec<Module> {
    let Some(run) = run(question) else {
        return Vec::new();
    };
    let mut script = None;
    let (start, root) = match &run {
        Run::File(name) => {
            let path = question.resolve(name);
            let root = path.parent().map(Path::to_owned).unwrap_or_default();
            script = Some((path.clone(), name.clone()));
            (path, root)
        }
        Run::Module(name) => match module_file(question, name) {
            Some(path) => (path, question.resolve("")),
            None => return Vec::new(),
        },
    };
    let mut search = ModuleSearch {
        directory: question.resolve(""),
        script,
        roots: roots(question, &root),
        seen: HashSet::from([start.clone()]),
        queue: VecDeque::new(),
        found: Vec::new(),
    };
    if matches!(run, Run::Module(_)) {
        search.note(&start, None);
        search.packages_of(&start);
    } else {
        search.queue.push_back(start);
    }
    search.finish()
}

/// Where modules are looked for: beside the script, and where `PYTHONPATH` says, unless that is
/// away from the user's own files.
fn roots(question: &Question, first: &Path) -> Vec<PathBuf> {
    let directory = question.resolve("");
    let path = question.variable("PYTHONPATH").unwrap_or_default();
    let entries = path.split(':').filter(|entry| !entry.is_empty());
    let own = |root: &PathBuf| root.starts_with(&directory) || root.starts_with(first);
    let others = entries.map(|entry| question.resolve(entry)).filter(own);
    std::iter::once(first.to_owned()).chain(others).collect()
}

struct ModuleSearch {
    directory: PathBuf,
    /// The script, by path and as the command names it.
    script: Option<(PathBuf, String)>,
    roots: Vec<PathBuf>,
    seen: HashSet<PathBuf>,
    queue: VecDeque<PathBuf>,
    found: Vec<Module>,
}

impl ModuleSearch {
    fn finish(mut self) -> Vec<Module> {
        while let Some(file) = self.queue.pop_front() {
            for import in imports(&beginning(&file)) {
                for path in self.candidates(&file, &import) {
                    self.note(&path, Some(&file));
                }
            }
        }
        self.found
    }

    /// A package's own file is run before what is in it.
    fn packages_of(&mut self, file: &Path) {
        let mut folder = file.parent();
        while let Some(path) = folder.filter(|path| *path != self.directory) {
            self.note(&path.join("__init__.py"), Some(file));
            folder = path
                .parent()
                .filter(|path| path.starts_with(&self.directory));
        }
    }

    fn note(&mut self, path: &Path, imported_by: Option<&Path>) {
        let is_new = imported_by.is_none() || !self.seen.contains(path);
        if !is_new || self.found.len() >= FILES || !path.is_file() {
            return;
        }
        self.seen.insert(path.to_owned());
        let Content::Sha256(hash) = content(path) else {
            return;
        };
        self.found.push(Module {
            name: self.name(path),
            imported_by: imported_by.map(|path| self.name(path)),
            hash,
        });
        self.queue.push_back(path.to_owned());
    }

    fn name(&self, path: &Path) -> String {
        if let Some((_, name)) = self.script.as_ref().filter(|(script, _)| script == path) {
            return name.clone();
        }
        let below = path.strip_prefix(&self.directory).unwrap_or(path);
        below.to_string_lossy().into_owned()
    }

    /// The files that a statement may mean.
    fn candidates(&self, file: &Path, import: &Import) -> Vec<PathBuf> {
        let roots = match import.level {
            0 => self.roots.clone(),
            level => file
                .ancestors()
                .nth(level)
                .map(Path::to_owned)
                .into_iter()
                .collect(),
        };
        let mut paths = Vec::new();
        for root in roots {
            let mut place = root;
            for part in &import.module {
                place.push(part);
                paths.extend([place.with_extension("py"), place.join("__init__.py")]);
            }
            for name in &import.names {
                let place = place.join(name);
                paths.extend([place.with_extension("py"), place.join("__init__.py")]);
            }
        }
        paths
    }
}

fn beginning(file: &Path) -> String {
    let is_file = fs::metadata(file).is_ok_and(|found| found.is_file());
    let mut bytes = Vec::new();
    if is_file && let Ok(file) = File::open(file) {
        let _ = file.take(SEARCHED).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The import statements of a Python file.
fn imports(text: &str) -> Vec<Import> {
    let mut found = Vec::new();
    let mut lines = text.lines().map(without_comment);
    while let Some(line) = lines.next() {
        let mut statement = line.trim().to_owned();
        if !statement.starts_with("import ") && !statement.starts_with("from ") {
            continue;
        }
        for _ in 0..LINES {
            let is_open = statement.contains('(') && !statement.contains(')');
            let is_continued = statement.ends_with('\\');
            if !is_open && !is_continued {
                break;
            }
            let Some(next) = lines.next() else { break };
            statement = format!("{} {}", statement.trim_end_matches('\\'), next.trim());
        }
        for part in statement.split(';') {
            read_statement(part.trim(), &mut found);
        }
    }
    found
}

fn without_comment(line: &str) -> &str {
    line.split_once('#').map_or(line, |(code, _)| code)
}

fn read_statement(statement: &str, found: &mut Vec<Import>) {
    if let Some(modules) = statement.strip_prefix("import ") {
        for module in names(modules) {
            found.push(Import {
                level: 0,
                module: parts(&module),
                names: Vec::new(),
            });
        }
    } else if let Some((module, imported)) = statement
        .strip_prefix("from ")
        .and_then(|rest| rest.split_once(" import "))
    {
        let module = module.trim();
        let level = module.bytes().take_while(|&byte| byte == b'.').count();
        found.push(Import {
            level,
            module: parts(&module[level..]),
            names: names(imported),
        });
    }
}

/// The names of a list, without those they are given here.
fn names(list: &str) -> Vec<String> {
    let list = list.trim().trim_matches(['(', ')']);
    let first = |item: &str| item.split_whitespace().next().map(str::to_owned);
    let is_name = |name: &String| {
        let is_letter = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        name.chars().all(is_letter)
    };
    list.split(',').filter_map(first).filter(is_name).collect()
}

fn parts(module: &str) -> Vec<String> {
    let parts = module.trim().split('.').filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> TempDir {
        let home = TempDir::new().unwrap();
        for (name, text) in files {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        home
    }

    fn question(home: &TempDir, line: &str, python_path: &str) -> Question {
        Question {
            directory: home.path().to_str().unwrap().to_owned(),
            command: line.split(' ').map(str::to_owned).collect(),
            environment: vec![("PYTHONPATH".to_owned(), python_path.to_owned())],
        }
    }

    fn found(home: &TempDir, line: &str) -> Vec<(String, String)> {
        let all = modules(&question(home, line, "lib:/usr/lib/python3"));
        let by = |module: &Module| module.imported_by.clone().unwrap_or_default();
        all.iter().map(|one| (one.name.clone(), by(one))).collect()
    }

    #[test]
    fn statements_are_read_in_all_their_forms() {
        let text = "import a.b as c, d  # e\nfrom f import (\n    g as h,  # note\n    i,\n)\n\
                    if x:\n    from . import j; import k\nfrom ..l.m import \\\n  n\n\
                    important = 1\nfrom_here = 2\nfrom o import *\n";
        let shown: Vec<String> = imports(text)
            .iter()
            .map(|one| {
                let (module, names) = (one.module.join("."), one.names.join(","));
                format!("{}{module}:{names}", ".".repeat(one.level))
            })
            .collect();
        assert_eq!(shown, ["a.b:", "d:", "f:g,i", ".:j", "k:", "..l.m:n", "o:"]);
    }

    #[test]
    fn modules_of_the_script_and_of_its_modules_are_found_and_no_others() {
        let home = tree(&[
            (
                "train.py",
                "import os, numpy, model.net\nfrom helpers import scale\nimport extra\n",
            ),
            ("helpers.py", "import json\nfrom model import data\n"),
            ("model/__init__.py", "from . import layers\n"),
            (
                "model/net.py",
                "from .layers import Dense\nfrom .. import train\n",
            ),
            ("model/layers.py", "import train\n"),
            ("model/data.py", ""),
            ("model/unused.py", ""),
            ("lib/extra.py", ""),
            ("unused.py", ""),
        ]);
        let expected = [
            ("model/__init__.py", "train.py"),
            ("model/net.py", "train.py"),
            ("helpers.py", "train.py"),
            ("lib/extra.py", "train.py"),
            ("model/layers.py", "model/__init__.py"),
            ("model/data.py", "helpers.py"),
        ];
        let expected = expected.map(|(name, by)| (name.to_owned(), by.to_owned()));
        assert_eq!(found(&home, "python train.py --epochs 3"), expected);
        assert_eq!(found(&home, "python ./train.py")[0].1, "./train.py");
        assert_eq!(found(&home, "bash train.py"), []);
        assert_eq!(found(&home, "python gone.py"), []);
    }

    #[test]
    fn what_python_m_runs_is_found_with_its_packages() {
        let home = tree(&[
            ("package/__init__.py", ""),
            ("package/train.py", "from package import data\n"),
            ("package/data.py", ""),
            ("tool/__main__.py", ""),
        ]);
        let names = |line: &str| -> Vec<String> {
            found(&home, line)
                .into_iter()
                .map(|(name, _)| name)
                .collect()
        };
        let all = ["package/train.py", "package/__init__.py", "package/data.py"];
        assert_eq!(names("python -m package.train --lr 1"), all);
        assert_eq!(names("python3 -um package.train"), all);
        assert_eq!(names("python -mtool"), ["tool/__main__.py"]);
        assert_eq!(names("python -m pytest tests"), [""; 0]);
        assert_eq!(names("python -m ../../etc"), [""; 0]);
    }

    #[test]
    fn circles_and_masses_of_files_end() {
        let many: Vec<(String, String)> = (0..300)
            .map(|n| (format!("m{n}.py"), format!("import m{}, m0\n", n + 1)))
            .collect();
        let many: Vec<(&str, &str)> = many.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
        let home = tree(&many);
        assert_eq!(found(&home, "python m0.py").len(), FILES);
    }
}
