//! The program to measure, as cargo builds it.

use std::env;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use serde::Deserialize;

use crate::run::stdout_of;

/// Options of `cargo build`.
#[derive(Args, Debug)]
#[command(next_help_heading = "What to build, as for cargo")]
pub(super) struct Build {
    /// The package of the program
    #[arg(short, long, value_name = "SPEC")]
    package: Option<String>,
    /// The program; not needed if there is only one
    #[arg(long, value_name = "NAME", group = "program")]
    bin: Option<String>,
    /// An example
    #[arg(long, value_name = "NAME", group = "program")]
    example: Option<String>,
    /// A benchmark; as under `cargo bench`, its first argument is `--bench`, and it runs in the folder of its package
    #[arg(long, value_name = "NAME", group = "program")]
    bench: Option<String>,
    /// Features to turn on
    #[arg(short = 'F', long, value_name = "FEATURES")]
    features: Vec<String>,
    /// Turn on all features
    #[arg(long)]
    all_features: bool,
    /// Turn off the default feature
    #[arg(long)]
    no_default_features: bool,
    /// The profile
    #[arg(long, value_name = "PROFILE", default_value = "release")]
    profile: String,
}

/// A package or a workspace, by `cargo metadata`.
#[derive(Deserialize)]
pub(super) struct Project {
    #[serde(skip)]
    pub(super) manifest: PathBuf,
    workspace_root: PathBuf,
    target_directory: PathBuf,
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// A program that was built.
pub(super) struct Program {
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Whether it is a benchmark, and the folder of its package.
    pub(super) is_benchmark: bool,
    pub(super) package: PathBuf,
}

/// The `Cargo.toml` that cargo uses in the working directory.
pub(super) fn manifest() -> Result<PathBuf, String> {
    let path = cargo("locate-project", |cargo| cargo.args(["--message-format", "plain"]))?;
    let path = Path::new(path.trim_end_matches('\n'));
    // git prints its root without links.
    path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))
}

impl Project {
    pub(super) fn of(manifest: &Path) -> Result<Self, String> {
        let options = ["--no-deps", "--format-version", "1", "--manifest-path"];
        let text = cargo("metadata", |cargo| cargo.args(options).arg(manifest))?;
        let project: Self = serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
        Ok(Self { manifest: manifest.into(), ..project })
    }

    pub(super) fn lock_file(&self) -> PathBuf {
        self.workspace_root.join("Cargo.lock")
    }

    /// Returns what the project lacks, if it does not have such a program.
    fn missing(&self, kind: &str, name: Option<&str>, package: Option<&str>) -> Option<String> {
        let mut packages: Vec<&Package> = self.packages.iter().collect();
        if let Some(package) = package {
            packages.retain(|one| one.name == package);
            if packages.is_empty() {
                return Some(format!("no package `{package}`"));
            }
        }
        let targets = packages.into_iter().flat_map(|package| &package.targets);
        let mut of_kind = targets.filter(|target| target.kind.iter().any(|one| one == kind));
        if of_kind.any(|target| name.is_none_or(|name| name == target.name)) {
            return None;
        }
        Some(name.map_or_else(|| "no program (`--bin`)".to_owned(), |name| format!("no {kind} `{name}`")))
    }

    fn package_of(&self, program: &Program) -> Option<&Package> {
        self.packages.iter().find(|package| package.manifest_path.parent() == Some(&program.package))
    }

    /// A folder for the builds of a side, kept for the next gate.
    pub(super) fn target_directory(&self, side: &str) -> PathBuf {
        self.target_directory.join("perfmark-gate").join(side)
    }
}

impl Build {
    /// The kind of the program, and its name if there is one.
    fn program(&self) -> (&'static str, Option<&str>) {
        let all = [("bin", &self.bin), ("example", &self.example), ("bench", &self.bench)];
        let named = all.into_iter().find_map(|(kind, name)| Some((kind, Some(name.as_deref()?))));
        named.unwrap_or(("bin", None))
    }

    /// Returns what the project lacks, if it does not have the program.
    pub(super) fn missing(&self, project: &Project) -> Option<String> {
        let (kind, name) = self.program();
        // cargo also takes patterns and URLs, which it reports itself.
        let package = self.package.as_deref().map(|spec| spec.split('@').next().unwrap_or(spec));
        let is_name = |spec: &&str| spec.chars().all(|c| c.is_alphanumeric() || "-_".contains(c));
        project.missing(kind, name, package.filter(is_name))
    }

    /// Returns what the base lacks, if it does not have the program that was built of the head. Other packages of its
    /// workspace may have programs.
    pub(super) fn missing_in_base(&self, base: &Project, head: &Project, program: &Program) -> Option<String> {
        // A package that was renamed may have the program.
        let package =
            head.package_of(program).filter(|package| base.packages.iter().any(|of_base| of_base.name == package.name));
        base.missing(self.program().0, Some(&program.name), package.map(|package| &*package.name))
    }

    /// Checks that the working directory's project has the program.
    pub(super) fn check(&self, project: &Project) -> Result<(), String> {
        self.missing(project).map_or(Ok(()), |missing| Err(format!("the working directory has {missing}")))
    }

    /// The program, and the options that decide what code it has.
    pub(super) fn variant(&self, program: &Program, project: &Project) -> impl Iterator<Item = String> {
        let package = project.package_of(program).map(|package| format!("--package={}", package.name));
        iter::once(format!("--{}={}", self.program().0, program.name)).chain(package).chain(self.code())
    }

    /// The options that decide what code is built.
    fn code(&self) -> impl Iterator<Item = String> {
        let flags = [("--all-features", self.all_features), ("--no-default-features", self.no_default_features)];
        let flags = flags.into_iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| flag.to_owned());
        let features = self.features.iter().map(|features| format!("--features={features}"));
        iter::once(format!("--profile={}", self.profile)).chain(features).chain(flags)
    }

    /// Builds the program. cargo prints its progress and its errors.
    pub(super) fn build(&self, project: &Project, target_directory: &Path) -> Result<Program, String> {
        let (kind, name) = self.program();
        let printed = cargo("build", |cargo| {
            cargo.args(["--message-format", "json-render-diagnostics"]);
            cargo.arg("--manifest-path").arg(&project.manifest).arg("--target-dir").arg(target_directory);
            match name {
                Some(name) => cargo.arg(format!("--{kind}={name}")),
                None => cargo.arg("--bins"),
            };
            cargo.args(self.package.iter().flat_map(|package| ["--package", package])).args(self.code())
        })?;
        let built = printed.lines().filter_map(|line| serde_json::from_str::<Artifact>(line).ok());
        let mut programs: Vec<Program> = built.filter_map(|artifact| artifact.program(kind, name)).collect();
        match (programs.pop(), &*programs) {
            (Some(program), []) => Ok(program),
            (None, _) => Err("cargo built no program; choose one with --bin, --example or --bench".into()),
            (Some(last), others) => {
                let names: Vec<&str> = others.iter().chain([&last]).map(|program| &*program.name).collect();
                Err(format!("cargo built the programs {}; choose one with --bin", names.join(", ")))
            }
        }
    }
}

/// A message of cargo about something that it built.
#[derive(Deserialize)]
struct Artifact {
    target: Target,
    executable: Option<PathBuf>,
    manifest_path: PathBuf,
}

impl Artifact {
    /// The program, if it is of that kind and name. With a benchmark, cargo also builds the programs of its package.
    fn program(self, kind: &str, name: Option<&str>) -> Option<Program> {
        let Self { target, executable, mut manifest_path } = self;
        let is_it = target.kind.iter().any(|one| one == kind) && name.is_none_or(|name| name == target.name);
        let path = executable.filter(|_| is_it)?;
        manifest_path.pop();
        Some(Program { name: target.name, path, is_benchmark: kind == "bench", package: manifest_path })
    }
}

/// What a command of cargo prints on stdout. It runs in the working directory, so that both sides have one compiler and
/// one configuration.
fn cargo(name: &str, options: impl FnOnce(&mut Command) -> &mut Command) -> Result<String, String> {
    // cargo sets the variable for its subcommands.
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    options(command.arg(name));
    stdout_of(&mut command).map_err(|why| format!("cargo {name}: {why}"))
}
